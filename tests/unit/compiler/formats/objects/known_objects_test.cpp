// The known objects: the forms that frameworks write, and not others under the same names.
#include "compiler/formats/objects/known_objects.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/formats/objects/call_text.h"
#include "compiler/formats/pytorch/pickle/pickle_reader.h"
#include "compiler/support/error.h"

namespace ucp::objects {
namespace {

// The objects of a pickle of protocol 2 that are not known; "" if all are.
std::string Unknown(const std::string& pickle, const std::vector<std::string>& keep = {},
                    KnownFor use = KnownFor::kWriting) {
  llvm::Expected<pytorch::Pickle> read = pytorch::ReadPickle("\x80\x02" + pickle + ".");
  if (!read) return "cannot be read: " + TakeFailure(read.takeError()).message;
  const KnownObjects known(keep, use);
  const pytorch::Value* unknown = known.FindUnknown(*read->root);
  return unknown == nullptr ? "" : CallText(*unknown);
}

// As the pickler writes them.
std::string Name(const std::string& module, const std::string& name) { return "c" + module + "\n" + name + "\n"; }
std::string Text(const std::string& text) {
  return "X" + std::string(1, static_cast<char>(text.size())) + std::string(3, '\0') + text;
}
std::string Attributes(const std::string& name, const std::string& value) { return "}" + Text(name) + value + "sb"; }

const std::string kCommand = Name("posix", "system") + Text("ls") + "\x85R";
const std::string kScaler = Name("deepspeed.runtime.fp16.loss_scaler", "LossScaler") + ")\x81";

TEST(KnownObjectsTest, DataIsKnown) {
  for (const std::string& pickle :
       {std::string("K\x01"),
        std::string("](K\x01K\x02"
                    "e"),
        Text("x"), "}" + Text("a") + "K\x01s", Name("torch", "float32"), Name("__builtin__", "int")}) {
    EXPECT_EQ(Unknown(pickle), "");
  }
}

TEST(KnownObjectsTest, FormsOfFrameworksAreKnown) {
  EXPECT_EQ(Unknown(Name("collections", "OrderedDict") + ")R"), "");
  EXPECT_EQ(Unknown(Name("collections", "defaultdict") + Name("__builtin__", "list") + "\x85R"), "");
  EXPECT_EQ(Unknown(Name("argparse", "Namespace") + ")\x81" + Attributes("lr", "K\x01")), "");
  EXPECT_EQ(Unknown(Name("torch", "device") + Text("cpu") + "\x85R"), "");
  EXPECT_EQ(Unknown(kScaler + Attributes("cur_scale", "K\x01")), "");
}

// A scan knows what a file holds that is read, and no target gets that.
TEST(KnownObjectsTest, MetadataOfDistributedCheckpointIsForScansAlone) {
  const std::string module = "torch.distributed.checkpoint.metadata";
  const std::string path = Name("pathlib", "PosixPath") + Text("a") + "\x85R";
  for (const std::string& pickle :
       {path, Name(module, "BytesStorageMetadata") + ")\x81", Name(module, "_MEM_FORMAT_ENCODING") + "K\x01\x85R",
        Name(module, "StorageMeta") + ")\x81" + Attributes("checkpoint_id", path),
        Name(module, "TensorProperties") + ")\x81" + Name("torch", "float32") + "\x85" + "b"}) {
    EXPECT_EQ(Unknown(pickle, {}, KnownFor::kScans), "");
    EXPECT_NE(Unknown(pickle), "");
  }
  const auto in_scan = [](const std::string& pickle) { return Unknown(pickle, {}, KnownFor::kScans); };
  EXPECT_NE(in_scan(Name("pathlib", "PosixPath") + "K\x01\x85R"), "");
  EXPECT_NE(in_scan(Name(module, "StorageMeta") + ")\x81" + Attributes("__class__", "K\x01")), "");
  EXPECT_EQ(in_scan(Name(module, "Metadata") + ")\x81" + Attributes("planner_data", kCommand)), "posix.system('ls')");
  EXPECT_EQ(in_scan(Name(module, "TensorProperties") + ")\x81" + kCommand + "\x85" + "b"), "posix.system('ls')");
  EXPECT_FALSE(IsKnownName("pathlib.PosixPath"));
}

// A call is a DTensor by its class and its function, and by no other ones.
TEST(KnownObjectsTest, PartsOfDTensorsAreForScansAlone) {
  const std::string placements = "torch.distributed.tensor.placement_types";
  const std::string spec = "torch.distributed.tensor._dtensor_spec";
  const auto in_scan = [](const std::string& pickle) { return Unknown(pickle, {}, KnownFor::kScans); };
  for (const std::string& pickle :
       {Name(placements, "Replicate") + ")\x81", Name(placements, "Shard") + ")\x81" + Attributes("dim", "K\x01"),
        Name(spec, "TensorMeta") + Name("torch", "float32") + "\x85\x81", Name("torch.distributed.tensor", "DTensor"),
        Name("torch.distributed.device_mesh", "DeviceMesh") + ")\x81" + Attributes("_rank", "K\x01")}) {
    EXPECT_EQ(in_scan(pickle), "");
    EXPECT_NE(Unknown(pickle), "");
  }
  EXPECT_EQ(in_scan(Name(spec, "TensorMeta") + kCommand + "\x85\x81"), "posix.system('ls')");
  EXPECT_EQ(in_scan(Name(placements, "Shard") + ")\x81" + Attributes("dim", kCommand)), "posix.system('ls')");
  EXPECT_NE(in_scan(Name(placements, "Shard") + "K\x01\x85R"), "");  // Called, and not made by __new__.
  EXPECT_NE(in_scan(Name("torch.distributed.tensor", "DTensor") + ")\x81"), "");
}

TEST(KnownObjectsTest, ADTypeOfNumbersIsKnown) {
  EXPECT_EQ(Unknown(Name("numpy", "dtype") + Text("f8") + "\x89\x88\x87R"), "");
}

TEST(KnownObjectsTest, OthersAreNamedByWhatTheyCall) {
  EXPECT_EQ(Unknown(kCommand), "posix.system('ls')");
  EXPECT_EQ(Unknown("]" + kCommand + "a"), "posix.system('ls')");
  EXPECT_EQ(Unknown("}" + Text("k") + kCommand + "s"), "posix.system('ls')");
  EXPECT_NE(Unknown(Name("os", "system")), "");  // The name alone.
}

TEST(KnownObjectsTest, KnownNamesInOtherFormsAreNot) {
  const std::vector<std::string> pickles = {
      kScaler + Attributes("setdefault", "K\x01"),                                 // An attribute it does not have.
      kScaler + Attributes("cur_scale", Text("x")),                                // Of another type.
      Name("deepspeed.runtime.fp16.loss_scaler", "LossScaler") + "K\x01\x85R",     // Called, and not made by __new__.
      Name("argparse", "Namespace") + ")\x81" + Attributes("__class__", "K\x01"),  // It would be looked up.
      Name("collections", "OrderedDict") + ")R" + Attributes("items", "K\x01"),
      Name("collections", "defaultdict") + Name("os", "system") + "\x85R",        // Another factory.
      Name("__builtin__", "getattr") + Name("os", "path") + Text("x") + "\x86R",  // Of no enum.
      Name("__builtin__", "eval") + Text("1") + "\x85R",
      Name("deepspeed.checkpoint.deepspeed_checkpoint", "DeepSpeedCheckpoint") + Text("/") + "\x85R",
      Name("deepspeed.runtime.pipe.engine", "MethodType") + Name("os", "system") + "K\x01\x86R",
      Name("numpy", "load") + Text("x") + "\x85R",
      Name("torch", "load") + Text("x") + "\x85R",
      Name("numpy", "dtype") + Text("O8") + "\x89\x88\x87R",  // Elements that are objects.
  };
  for (const std::string& pickle : pickles) {
    EXPECT_NE(Unknown(pickle), "") << pickle;
    EXPECT_EQ(Unknown(pickle).find("cannot be read"), std::string::npos) << Unknown(pickle);
  }
}

TEST(KnownObjectsTest, WhatTheUserVouchesForIsKnownByItsExactName) {
  EXPECT_EQ(Unknown(kCommand, {"posix.system"}), "");
  EXPECT_NE(Unknown(kCommand, {"posix", "system", "posix.*", "os.system"}), "");
  EXPECT_NE(Unknown("]" + kCommand + "a" + Name("nt", "system") + Text("ls") + "\x85Ra", {"posix.system"}), "");
}

}  // namespace
}  // namespace ucp::objects
