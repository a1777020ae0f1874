// The common part of all live components: take part in the feed, follow the theme, draw at most once a frame
// and only when something changed, leave nothing behind.

import { openFeed } from "./feed.js";
import { defineComponent } from "./mount.js";
import { selectionFor } from "./selection.js";
import { applyTheme } from "./theme.js";
import { Tip } from "./tip.js";

/** A component's view. Subclasses build their DOM in the constructor and bring it up to date in draw(). */
export class LiveView {
  constructor({ root, data, feed, palette }) {
    this.root = root;
    this.data = data;
    this.feed = feed;
    this.moment = feed.moment;
    this.palette = palette;
    this.selection = selectionFor(data.source);
    this.tip = new Tip(root);
    this.exits = [];
    this.drawing = 0;
  }

  /** Keep a way out (an unsubscribe function) for close(). */
  listen(...exits) {
    this.exits.push(...exits);
  }

  requestDraw() {
    this.drawing ||= requestAnimationFrame(() => {
      this.drawing = 0;
      this.draw();
    });
  }

  draw() {}

  /** Streamlit's theme changed: the variables are set already, only canvases have to be told. */
  retheme(palette) {
    this.palette = palette;
    this.requestDraw();
  }

  close() {
    cancelAnimationFrame(this.drawing);
    for (const exit of this.exits) exit();
    this.exits = [];
    this.tip.close();
    this.root.replaceChildren();
  }
}

/** The function that a component's module exports as `mount`. */
export function defineLiveComponent(name, View) {
  return defineComponent(name, (component) => {
    let part = join(component, View);
    return {
      update(next) {
        if (next.data.source !== part.source) {
          part.leave();
          part = join(next, View);
        } else {
          part.view.retheme(applyTheme(next.parentElement, next.data.palettes));
        }
      },
      destroy: () => part.leave(),
    };
  });
}

function join({ parentElement, data }, View) {
  const root = parentElement.querySelector(".kx");
  const palette = applyTheme(parentElement, data.palettes);
  const { feed, release } = openFeed(data.source, data.home);
  const view = new View({ root, data, feed, palette });
  view.requestDraw();
  return {
    source: data.source,
    view,
    leave() {
      view.close();
      release();
    },
  };
}
