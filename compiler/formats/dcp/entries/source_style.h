// How a folder that is read names its entries, so that a folder that is made of it names them likewise.
#pragma once

#include <string>

#include "compiler/formats/dcp/entries/roles.h"
#include "compiler/formats/dcp/write/style.h"

namespace ucp::dcp {

// `has_two_folders`: Accelerate's. `other_file`: Lightning's, if there is one.
Style FindStyle(const Roles& roles, bool has_two_folders, const std::string& other_file);

}  // namespace ucp::dcp
