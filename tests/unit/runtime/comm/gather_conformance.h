// What every Communicator's AllGather() must do; all ranks call it.
#pragma once

#include "runtime/comm/communicator.h"

namespace ucp {

void CheckGathers(Communicator& ranks);

}  // namespace ucp
