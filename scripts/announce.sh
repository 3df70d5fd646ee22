# shellcheck shell=bash
# For sourcing by the other scripts: says what is being done, and where a script stopped.

current_step="starting"

step() {
  current_step="$1"
  if [[ -t 1 ]]; then printf '\n\033[1m==> %s\033[0m\n' "$1"; else printf '\n==> %s\n' "$1"; fi
}

# Stops for a reason of its own, in one sentence.
stop() {
  printf 'error: %s\n' "$1" >&2
  trap - ERR
  exit 1
}

set -o errtrace
trap 'printf "error: stopped at: %s; the reason stands above\n" "$current_step" >&2' ERR
