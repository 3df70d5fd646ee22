// The effect of loading a pickle at one place, in words for a report: `posix.system('touch /tmp/x')`.
#pragma once

#include <string>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::objects {

// Returns the class or function that makes this value: "posix.system"; of a class or function, its own name. Of a
// callable without a name, the text of that call.
std::string ObjectName(const pytorch::Value& value);

// Returns the call that loading it makes, or the import of a bare name. Cut after some 160 characters, and printable:
// it comes from a file.
std::string CallText(const pytorch::Value& value);

// Returns a value as CallText() shows one.
std::string ShortText(const pytorch::Value& value);

}  // namespace ucp::objects
