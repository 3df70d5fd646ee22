#include "runtime/formats/pytorch/pickle_writer.h"

#include "runtime/formats/pytorch/pickler.h"

namespace ucp::pytorch {

std::string WritePickle(const Value& root) { return Pickler().Write(root); }

}  // namespace ucp::pytorch
