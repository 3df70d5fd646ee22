// Why the operating system refused, as it stands at the end of a message.
#pragma once

#include <string>
#include <system_error>

namespace ucp {

// "no space left on device", of an errno.
std::string SystemReason(int error_number);
std::string SystemReason(const std::error_code& error);

}  // namespace ucp
