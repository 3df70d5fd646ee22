#include "compiler/formats/pytorch/pickle/pickle_reader.h"

#include "compiler/formats/pytorch/pickle/pickle_machine.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {

llvm::Expected<Pickle> ReadPickle(std::string_view bytes, const PickleLimits& limits) {
  LeadingPickle leading = ReadLeadingPickle(bytes, limits);
  if (!leading.pickle || leading.bytes == bytes.size()) return std::move(leading.pickle);
  return Fail(ErrorCode::kBadData, "byte {} of the pickle: the pickle ends here, and {} more bytes follow",
              leading.bytes - 1, bytes.size() - leading.bytes);
}

LeadingPickle ReadLeadingPickle(std::string_view bytes, const PickleLimits& limits) {
  PickleMachine machine(bytes, limits);
  auto pickle = machine.Run();
  return {std::move(pickle), machine.bytes_read(), machine.missing_bytes()};
}

llvm::Expected<std::shared_ptr<const Pickle>> PickleCache::Read(std::string_view bytes, const PickleLimits& limits) {
  const std::string hash = ContentHash(bytes);
  {
    std::lock_guard lock(mutex_);
    if (const auto known = by_content_.find(hash); known != by_content_.end()) return known->second;
  }
  auto pickle = ReadPickle(bytes, limits);
  if (!pickle) return pickle.takeError();
  auto read = std::make_shared<const Pickle>(std::move(*pickle));
  std::lock_guard lock(mutex_);
  return by_content_.try_emplace(hash, std::move(read)).first->second;
}

}  // namespace ucp::pytorch
