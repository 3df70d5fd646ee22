#include "runtime/formats/pytorch/pickle_reader.h"

#include "compiler/support/checksum.h"
#include "runtime/formats/pytorch/pickle_machine.h"

namespace ucp::pytorch {

llvm::Expected<Pickle> ReadPickle(std::string_view bytes, const PickleLimits& limits) {
  return PickleMachine(bytes, limits).Run();
}

llvm::Expected<std::shared_ptr<const Pickle>> PickleCache::Read(std::string_view bytes, const PickleLimits& limits) {
  std::shared_ptr<const Pickle>& known = by_content_[ContentHash(bytes)];
  if (known) return known;
  auto pickle = ReadPickle(bytes, limits);
  if (!pickle) return pickle.takeError();
  known = std::make_shared<const Pickle>(std::move(*pickle));
  return known;
}

}  // namespace ucp::pytorch
