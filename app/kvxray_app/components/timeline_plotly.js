// Gets plotly.js when the first chart is to be drawn, never before: 4.8 MB that no other page needs. It comes from this
// server, out of the plotly package, beside our own modules.

let loading = null;

/** Resolves to Plotly; rejects with one sentence, and the next call tries again. */
export function loadPlotly() {
  loading ??= insertScript().catch((error) => {
    loading = null;
    throw error;
  });
  return loading;
}

// A script element and not an import: it is no module, and leaves its name at the window.
function insertScript() {
  if (window.Plotly) return Promise.resolve(window.Plotly);
  return new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = new URL("./plotly.min.js", import.meta.url);
    script.onload = () => (window.Plotly ? done(window.Plotly) : fail(new Error(FAILED)));
    script.onerror = () => {
      script.remove();
      fail(new Error(FAILED));
    };
    document.head.append(script);
  });
}

const FAILED = "The charts could not be loaded: this server does not give plotly.js.";
