// What the theme leaves out for readers who hear a page, or have no mouse.
document.addEventListener("DOMContentLoaded", () => {
  for (const heading of document.querySelectorAll("p.caption[role=heading]")) heading.ariaLevel = "2";
  for (const code of document.querySelectorAll("div.highlight pre")) code.tabIndex = 0; // it scrolls by keys, too
  document.querySelector("aside.sidebar-drawer")?.setAttribute("aria-label", "All pages");
  document.querySelector("aside.toc-drawer")?.setAttribute("aria-label", "On this page");
});
