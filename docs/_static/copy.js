// A button that copies an example. Pages work without it.
document.querySelectorAll("div.highlight pre").forEach((pre) => {
  const button = document.createElement("button");
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(pre.innerText);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  pre.parentElement.appendChild(button);
});
