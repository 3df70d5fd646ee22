#include "runtime/convert/earlier_run.h"

#include <fmt/format.h>

#include "compiler/support/error.h"
#include "runtime/manifest/manifest.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {

std::string ToolOfRuns() {
  return fmt::format("{} with digests of version {}", ToolName(), static_cast<int>(kDigestVersion));
}

std::string ComposeEntry(const RunIdentity& identity, const std::string& progress) {
  wire::ByteWriter writer;
  for (const std::string* text : {&identity.tool, &identity.source, &identity.plan, &identity.part}) writer.Add(*text);
  writer.Add(std::uint64_t{identity.verifies_crc});
  return writer.bytes() + progress;
}

llvm::Expected<std::string> ProgressOf(const std::string& entry, const RunIdentity& identity,
                                       const std::string& destination) {
  constexpr const char* kBeginAgain = "or leave out --resume to begin again";
  wire::ByteReader reader(entry);
  RunIdentity before;
  for (std::string* text : {&before.tool, &before.source, &before.plan, &before.part}) *text = reader.Text();
  before.verifies_crc = reader.Number() != 0;
  if (reader.has_failed()) {
    return Fail(ErrorCode::kUsage, "the journal beside `{}` is not one of ucprun; leave out --resume to begin again",
                destination);
  }
  if (before.tool != identity.tool) {
    return Fail(ErrorCode::kUsage, "the interrupted run to `{}` was one of {}, and this is {}; go on with that one, {}",
                destination, before.tool, identity.tool, kBeginAgain);
  }
  if (before.source != identity.source && !identity.has_source) {
    return Fail(ErrorCode::kUsage,
                "the interrupted run to `{}` wrote another model, whose tensors have the hash {}, and those of this "
                "command have {}; repeat its command, {}",
                destination, before.source, identity.source, kBeginAgain);
  }
  if (before.source != identity.source) {
    return Fail(
        ErrorCode::kUsage,
        "the interrupted run to `{}` read a source whose files, sizes and headers have the hash {}, and those of "
        "this source have {}; name that source, {}",
        destination, before.source, identity.source, kBeginAgain);
  }
  if (before.plan != identity.plan) {
    return Fail(ErrorCode::kUsage,
                "the interrupted run to `{}` followed a plan with the hash {}, and this command's plan has {}; repeat "
                "its command, {}",
                destination, before.plan, identity.plan, kBeginAgain);
  }
  if (before.part != identity.part) {
    auto name = [](const std::string& part) { return part.empty() ? "all of it" : part; };
    return Fail(ErrorCode::kUsage,
                "the interrupted run to `{}` wrote {} here, and this one would write {}; start the ranks on the same "
                "nodes in the same order, {}",
                destination, name(before.part), name(identity.part), kBeginAgain);
  }
  if (before.verifies_crc != identity.verifies_crc) {
    return Fail(ErrorCode::kUsage,
                "the interrupted run to `{}` had {}--ignore-crc, and this command has {}; repeat its "
                "command, {}",
                destination, before.verifies_crc ? "no " : "", identity.verifies_crc ? "none" : "it", kBeginAgain);
  }
  return std::string(reader.left());
}

}  // namespace ucp
