// A manifest: what is accepted names files inside the checkpoint, and reads the same when it is written again.
#include "runtime/manifest/manifest.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto manifest = ucp::ParseManifest(ucp::fuzz::Text(data, size));
  if (!manifest) {
    UCP_CHECK(!ucp::TakeFailure(manifest.takeError()).message.empty(), "refused without a reason");
    return 0;
  }
  for (const ucp::ManifestFile& file : manifest->files) {
    UCP_CHECK(!file.path.empty() && file.path.front() != '/', "path `{}`", file.path);
    UCP_CHECK(("/" + file.path + "/").find("/../") == std::string::npos, "path `{}`", file.path);
  }
  auto again = ucp::ParseManifest(ucp::ComposeManifest(*manifest));
  UCP_CHECK(static_cast<bool>(again), "{}", ucp::TakeFailure(again.takeError()).message);
  UCP_CHECK(*again == *manifest, "written, it reads otherwise");
  return 0;
}
