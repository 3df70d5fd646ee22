#include "runtime/destination/earlier_run.h"

#include <fmt/format.h>

#include "compiler/support/error.h"
#include "compiler/support/user_option.h"
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
  const std::string begin_again = fmt::format("or leave out {} to begin again", OptionName(UserOption::kResume));
  wire::ByteReader reader(entry);
  RunIdentity before;
  for (std::string* text : {&before.tool, &before.source, &before.plan, &before.part}) *text = reader.Text();
  before.verifies_crc = reader.Number() != 0;
  if (reader.has_failed()) {
    return Fail(ErrorCode::kUsage, "the journal beside `{}` is not one of ucprun; leave out {} to begin again",
                destination, OptionName(UserOption::kResume));
  }
  if (before.tool != identity.tool) {
    return Fail(ErrorCode::kUsage, "the interrupted run to `{}` was one of {}, and this is {}; continue that one, {}",
                destination, before.tool, identity.tool, begin_again);
  }
  if (before.source != identity.source && !identity.has_source) {
    return Fail(ErrorCode::kUsage,
                "the interrupted run to `{}` wrote another model, whose tensors have the hash {}, and those of this "
                "command have {}; repeat its command, {}",
                destination, before.source, identity.source, begin_again);
  }
  if (before.source != identity.source) {
    return Fail(
        ErrorCode::kUsage,
        "the interrupted run to `{}` read a source whose files, sizes and headers have the hash {}, and those of "
        "this source have {}; name that source, {}",
        destination, before.source, identity.source, begin_again);
  }
  if (before.plan != identity.plan) {
    return Fail(ErrorCode::kUsage,
                "the interrupted run to `{}` followed a plan with the hash {}, and this command's plan has {}; repeat "
                "its command, {}",
                destination, before.plan, identity.plan, begin_again);
  }
  if (before.part != identity.part) {
    auto name = [](const std::string& part) { return part.empty() ? "all of it" : part; };
    return Fail(ErrorCode::kUsage,
                "the interrupted run to `{}` wrote {} here, and this one would write {}; start the ranks on the same "
                "nodes in the same order, {}",
                destination, name(before.part), name(identity.part), begin_again);
  }
  if (before.verifies_crc != identity.verifies_crc) {
    return Fail(ErrorCode::kUsage,
                "the interrupted run to `{}` had {}{}, and this command has {}; repeat its "
                "command, {}",
                destination, before.verifies_crc ? "no " : "", OptionName(UserOption::kIgnoreCrc),
                identity.verifies_crc ? "none" : "it", begin_again);
  }
  return std::string(reader.left());
}

}  // namespace ucp
