// A name or an option in the text is not broken at its hyphens; longer ones may be.
for (const code of document.querySelectorAll(":not(pre) > code")) {
  if (/^\S{1,40}$/.test(code.textContent)) code.style.whiteSpace = "nowrap";
}
