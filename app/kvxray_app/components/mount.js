// How a component lives under Streamlit. Streamlit calls a component's default export again after every script
// run and every theme change, with the same parentElement, and calls only the cleanup that the latest call
// returned. So a component has one instance a parentElement; later calls update it; a cleanup of an older call
// (it can come late, when a call was overtaken while its module was loading) must not end the instance of a
// newer one.

const instances = new WeakMap();

/**
 * Make a component out of `create(component) -> {update(component), destroy()}`.
 * The returned function is called for every run and returns the cleanup.
 */
export function defineComponent(name, create) {
  return (component) => {
    const root = component.parentElement;
    nameSource(component.data);
    let instance = instances.get(root);
    if (instance && instance.name !== name) {
      instance.handle.destroy();
      instance = undefined;
    }
    if (instance) {
      instance.handle.update(component);
    } else {
      instance = { name, calls: 0, handle: create(component) };
      instances.set(root, instance);
    }
    const call = ++instance.calls;
    return () => {
      if (instances.get(root) !== instance || call !== instance.calls) return;
      instances.delete(root);
      instance.handle.destroy();
    };
  };
}

// Which of many is shown belongs into the address, so that it can be handed on; but not as a step of its own, which would
// catch whoever goes back.
function nameSource({ source, is_one_of_many: isOneOfMany } = {}) {
  const url = new URL(location.href);
  if (!isOneOfMany || url.searchParams.has("source")) return;
  url.searchParams.set("source", source);
  history.replaceState(history.state, "", url);
}
