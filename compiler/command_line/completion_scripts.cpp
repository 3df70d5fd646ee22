// Each script hands over the words up to the cursor and reads one candidate a line; `:files` and `:folders` ask the
// shell for its own lists. PROGRAM stands for the program's name.
#include "compiler/command_line/completion_scripts.h"

namespace ucp {
namespace {

constexpr std::string_view kBash = R"script(# Completion of PROGRAM for bash: source <(PROGRAM completion bash)
_PROGRAM() {
  local current="${COMP_WORDS[COMP_CWORD]}" word paths
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    case "$word" in
      :files) mapfile -t paths < <(compgen -f -- "$current") ;;
      :folders) mapfile -t paths < <(compgen -d -- "$current") ;;
      *) COMPREPLY+=("$word") ; continue ;;
    esac
    compopt -o filenames 2>/dev/null
    COMPREPLY+=("${paths[@]}")
  done < <("${COMP_WORDS[0]}" completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _PROGRAM PROGRAM
)script";

constexpr std::string_view kZsh = R"script(#compdef PROGRAM
# Completion of PROGRAM for zsh: source <(PROGRAM completion zsh)
_PROGRAM() {
  local line word
  local -a candidates
  for line in "${(@f)$("${words[1]}" completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    word="${line%%$'\t'*}"
    case "$word" in
      "") ;;
      :files) _files ;;
      :folders) _files -/ ;;
      *) candidates+=("${word//:/\\:}:${line#*$'\t'}") ;;
    esac
  done
  (( ${#candidates} )) && _describe 'PROGRAM' candidates
}
compdef _PROGRAM PROGRAM
)script";

constexpr std::string_view kFish = R"script(# Completion of PROGRAM for fish: PROGRAM completion fish | source
function __PROGRAM_complete
  set -l words (commandline -opc) (commandline -ct)
  for line in ($words[1] completion words $words[2..-1] 2>/dev/null)
    switch $line
      case ':files*'
        __fish_complete_path $words[-1]
      case ':folders*'
        __fish_complete_directories $words[-1]
      case '*'
        echo $line
    end
  end
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
)script";

}  // namespace

std::string CompletionScript(std::string_view shell, const std::string& program) {
  constexpr std::string_view kPlaceholder = "PROGRAM";
  std::string script(shell == "bash" ? kBash : shell == "zsh" ? kZsh : shell == "fish" ? kFish : "");
  for (std::size_t at = script.find(kPlaceholder); at != std::string::npos; at = script.find(kPlaceholder, at)) {
    script.replace(at, kPlaceholder.size(), program);
    at += program.size();
  }
  return script;
}

}  // namespace ucp
