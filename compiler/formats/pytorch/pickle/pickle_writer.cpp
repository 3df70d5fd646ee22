#include "compiler/formats/pytorch/pickle/pickle_writer.h"

#include "compiler/formats/pytorch/pickle/pickler.h"

namespace ucp::pytorch {

std::string WritePickle(const Value& root, const std::function<void(const Storage&)>& show) {
  return Pickler(show).Write(root);
}

}  // namespace ucp::pytorch
