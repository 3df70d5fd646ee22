// The names of a destination's parent, and of the hidden folders and files in which a commit prepares it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ucp {

// Returns the folder in which a destination has its name; "." for a bare name.
std::string ParentOf(const std::string& destination);
// Returns its name there; slashes at the end do not count.
std::string NameOfDestination(const std::string& destination);
// Returns the hidden path beside it for `what`: `parent/.NAME.ucp-WHAT`.
std::string BesideDestination(const std::string& destination, std::string_view what);
// "NAME", if this is the name of a hidden folder in which a destination is prepared. Returns nothing for any other
// name.
std::optional<std::string> NameOfPrepared(std::string_view folder_name);

}  // namespace ucp
