// The system begins with a capital, messages do not. An abbreviation ("RFS specific error") stays as it is.
#include "compiler/support/system_reason.h"

#include <cctype>

namespace ucp {

std::string SystemReason(int error_number) {
  return SystemReason(std::error_code(error_number, std::generic_category()));
}

std::string SystemReason(const std::error_code& error) {
  std::string text = error.message();
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

}  // namespace ucp
