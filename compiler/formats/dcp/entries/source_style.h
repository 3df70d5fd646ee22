// How a folder that is read names its entries, so that a folder that is made of it names them likewise.
#pragma once

#include "compiler/formats/dcp/entries/roles.h"
#include "compiler/formats/dcp/write/style.h"

namespace ucp::dcp {

// `has_two_folders`: Accelerate's.
Style FindStyle(const Roles& roles, bool has_two_folders);

}  // namespace ucp::dcp
