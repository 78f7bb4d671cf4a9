// What the theme leaves out for readers who hear a page, or have no mouse.
document.addEventListener("DOMContentLoaded", () => {
  for (const heading of document.querySelectorAll("p.caption[role=heading]")) heading.ariaLevel = "2";
  letKeysScroll();
  addEventListener("resize", letKeysScroll);
  document.querySelector("aside.sidebar-drawer")?.setAttribute("aria-label", "All pages");
  document.querySelector("aside.toc-drawer")?.setAttribute("aria-label", "On this page");
});

// Code, tables and pictures that are wider than their place scroll by keys, too, if the Tab key reaches them.
function letKeysScroll() {
  for (const part of document.querySelectorAll("div.highlight pre, div.table-wrapper, article p:has(> img)")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}
