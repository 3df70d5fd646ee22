#include "compiler/formats/pytorch/pickle/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"
#include "tests/unit/compiler/formats/pytorch/samples.h"

namespace ucp::pytorch {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A pickle of protocol 2 around these instructions.
std::string Program(std::string_view instructions) { return "\x80\x02" + std::string(instructions) + "."; }

TEST(PickleReader, ReadsAllDTypes) {
  EXPECT_EQ(Print(*SampleArchive("dtypes.pt").root()),
            "{'torch.bool': tensor<bool[3] at 0 of '0' bool 3 on cpu>, "
            "'torch.uint8': tensor<uint8[3] at 0 of '1' uint8 3 on cpu>, "
            "'torch.int8': tensor<int8[3] at 0 of '2' int8 3 on cpu>, "
            "'torch.int16': tensor<int16[3] at 0 of '3' int16 3 on cpu>, "
            "'torch.int32': tensor<int32[3] at 0 of '4' int32 3 on cpu>, "
            "'torch.int64': tensor<int64[3] at 0 of '5' int64 3 on cpu>, "
            "'torch.uint16': tensor<uint16[3] at 0 of '6' untyped uint8 6 on cpu>, "
            "'torch.uint32': tensor<uint32[3] at 0 of '7' untyped uint8 12 on cpu>, "
            "'torch.uint64': tensor<uint64[3] at 0 of '8' untyped uint8 24 on cpu>, "
            "'torch.float16': tensor<float16[3] at 0 of '9' float16 3 on cpu>, "
            "'torch.bfloat16': tensor<bfloat16[3] at 0 of '10' bfloat16 3 on cpu>, "
            "'torch.float32': tensor<float32[3] at 0 of '11' float32 3 on cpu>, "
            "'torch.float64': tensor<float64[3] at 0 of '12' float64 3 on cpu>, "
            "'torch.complex64': tensor<complex64[3] at 0 of '13' complex64 3 on cpu>, "
            "'torch.complex128': tensor<complex128[3] at 0 of '14' complex128 3 on cpu>, "
            "'torch.float8_e4m3fn': tensor<float8_e4m3fn[3] at 0 of '15' untyped uint8 3 on cpu>, "
            "'torch.float8_e5m2': tensor<float8_e5m2[3] at 0 of '16' untyped uint8 3 on cpu>, "
            "'torch.float8_e4m3fnuz': tensor<float8_e4m3fnuz[3] at 0 of '17' untyped uint8 3 on cpu>, "
            "'torch.float8_e5m2fnuz': tensor<float8_e5m2fnuz[3] at 0 of '18' untyped uint8 3 on cpu>}");
}

TEST(PickleReader, ReadsViewsThatShareAStorage) {
  EXPECT_EQ(Print(*SampleArchive("views.pt").root()),
            "{'base': &1 tensor<float32[3,4] at 0 of '0' float32 12 on cpu>, "
            "'transposed': tensor<float32[4,3] strides [1,4] at 0 of '0' float32 12 on cpu>, "
            "'column': tensor<float32[3] strides [4] at 1 of '0' float32 12 on cpu>, "
            "'row': tensor<float32[4] at 8 of '0' float32 12 on cpu>, "
            "'expanded': tensor<float32[5] strides [0] at 3 of '0' float32 12 on cpu>, "
            "'empty': tensor<float32[0,4] at 12 of '0' float32 12 on cpu>, "
            "'scalar': tensor<int64[] at 0 of '1' int64 1 on cpu>, "
            "'nothing': tensor<float16[0] at 0 of '2' float16 0 on cpu>, 'same': *1}");
}

TEST(PickleReader, StoragesAreSharedByKey) {
  const Archive archive = SampleArchive("views.pt");
  const auto* base = Find(*archive.root(), "base")->As<Tensor>();
  const auto* column = Find(*archive.root(), "column")->As<Tensor>();
  EXPECT_EQ(base->storage, column->storage);
  EXPECT_EQ(archive.pickle->storages.size(), 3u);
}

TEST(PickleReader, ReadsParametersAndAttributes) {
  EXPECT_EQ(Print(*SampleArchive("parameters.pt").root()),
            "collections.OrderedDict(){'weight': parameter<float32[1,2] at 0 of '0' float32 2 on cpu requires_grad>, "
            "'bias': parameter<float32[1] at 0 of '1' float32 1 on cpu requires_grad>, "
            "'marked': tensor<float32[2] at 0 of '2' float32 2 on cpu> as torch.Tensor with "
            "{'tensor_model_parallel': True}, "
            "'parameter': parameter<int64[2] at 0 of '3' int64 2 on cpu> with {'partition_dim': 1}} "
            "with {'_metadata': collections.OrderedDict(){'': {'version': 1}}}");
}

TEST(PickleReader, ReadsOrdinaryObjects) {
  EXPECT_EQ(
      Print(*SampleArchive("objects.pt").root()),
      "{'args': new argparse.Namespace() with {'num_layers': 2, 'params_dtype': torch.float16, 'lr': 0.0001, "
      "'name': None, 'betas': (0.9, 0.95)}, "
      "'integers': [0, 255, 256, 65535, 65536, -1, 2147483647, -2147483648, 2147483648, -2147483649, "
      "9223372036854775807, -9223372036854775808, int(0x000000000000008000, little-endian), "
      "int(0x0000000000000000c0, little-endian)], "
      "'doubles': [0.0, -0.0, 1.5, inf], 'truths': (True, False), 'text': 'größe \U0001f600', "
      "'bytes': bytes(616200ff), 'no bytes': __builtin__.bytes(), 'set': __builtin__.set([3]), "
      "'frozen': __builtin__.frozenset([]), 'range': __builtin__.xrange(0, 3, 1), "
      "'array': __builtin__.bytearray(bytes(01)), 'size': torch.Size((3, 4)), 'device': torch.device('cpu'), "
      "'scalar': numpy._core.multiarray.scalar(numpy.dtype('f8', False, True) with "
      "(3, '<', None, None, None, -1, -1, 0), bytes(000000000000e03f)), 'complex': __builtin__.complex(1.0, 2.0), "
      "'shared': [&1 ['once'], *1, {'again': *1}], 1: 'integer key'}");
}

TEST(PickleReader, ReadsDeepSpeedObjects) {
  EXPECT_EQ(
      Print(*SampleArchive("deepspeed.pt").root()),
      "{'static': new deepspeed.runtime.fp16.loss_scaler.LossScaler() with {'cur_scale': 1.0, 'dynamic': False}, "
      "'dynamic': new deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler() with {'cur_scale': 65536, "
      "'dynamic': True, 'cur_iter': 0, 'last_overflow_iter': -1, 'scale_factor': 2.0, 'scale_window': 1000, "
      "'min_scale': 1, 'delayed_shift': 2, 'cur_hysteresis': 2, 'consecutive_hysteresis': False, "
      "'raise_error_at_min_scale': True, 'dtype': torch.float16}, "
      "'stage by number': deepspeed.runtime.zero.config.ZeroStageEnum(2), "
      "'stage by name': __builtin__.getattr(deepspeed.runtime.zero.config.ZeroStageEnum, 'gradients'), "
      "'slices': [collections.OrderedDict(){'weight': new deepspeed.utils.tensor_fragment.fragment_address() with "
      "{'numel': 6, 'start': 2}}]}");
}

TEST(PickleReader, ReadsRandomStates) {
  const Archive archive = SampleArchive("random.pt");
  const auto* python = Items(*Find(*archive.root(), "random"));
  EXPECT_EQ(Items(*(*python)[1])->size(), 625u);
  const auto* numpy = Items(*Find(*archive.root(), "numpy"));
  const Value& array = *(*numpy)[1];
  EXPECT_EQ(ClassName(array), "numpy._core.multiarray._reconstruct");
  const auto* state = Items(*array.As<Call>()->state);
  EXPECT_EQ(AsBytes(*(*state)[4])->size(), 624u * 4);
  EXPECT_EQ(AsBytes(*(*state)[4])->substr(0, 4), std::string_view("\x01\x00\x00\x00", 4));  // The seed.
}

// The same objects, written by Python with each protocol, mean the same.
TEST(PickleReader, ReadsProtocols2To5) {
  const std::string newest = PickleResult(Sample("plain5.pkl"));
  EXPECT_THAT(newest, StartsWith("{'list': [0, 1, 2, "));
  EXPECT_THAT(newest,
              HasSubstr("999, 1000], 'set': builtins.set([1]), 'frozen': builtins.frozenset([2]), 'bytes': bytes(ff), "
                        "'array': builtins.bytearray(bytes(02)), 'namespace': new argparse.Namespace() with "
                        "{'a': 1}, 'text': 'ttt"));
  EXPECT_THAT(newest, HasSubstr("'long': int(0x000000000000000040, little-endian)}"));
  EXPECT_EQ(PickleResult(Sample("plain4.pkl")), newest);
  EXPECT_EQ(PickleResult(Sample("plain3.pkl")), newest);
  std::string oldest = PickleResult(Sample("plain2.pkl"));
  for (std::size_t at = oldest.find("__builtin__"); at != std::string::npos; at = oldest.find("__builtin__")) {
    oldest.replace(at, 11, "builtins");
  }
  EXPECT_EQ(oldest, newest);
}

TEST(PickleReader, ReadsTextForms) {
  EXPECT_EQ(PickleResult(Program("(lp0\nI01\naI7\naL8L\naF1.5\nag0\n0")), "[True, 7, 8, 1.5]");
  EXPECT_EQ(PickleResult(Program("(I01\nI7\nL8L\nF1.5\nU\x01xl")), "[True, 7, 8, 1.5, 'x']");
  EXPECT_EQ(PickleResult(Program("(K\x01K\x02"
                                 "d")),
            "{1: 2}");
}

struct Refusal {
  std::string_view instructions;
  std::string_view message;
};

TEST(PickleReader, RefusesWhatIsNotPlainData) {
  const Refusal refusals[] = {
      {"]\x82\x01", "byte 3 of the pickle: the instruction 0x82 is none of those that build plain data"},
      {"]\xff", "the instruction 0xff is none of those"},
      {"Pkey\n", "the instruction 0x50 is none of those"},
      {"a", "byte 2 of the pickle: a value is taken from an empty stack"},
      {"](a", "a value is taken from an empty stack"},
      {"t", "a group of values is taken and none was begun"},
      {"(K\x01"
       "d",
       "a group of 1 values is not made of keys and values"},
      {"h\x05", "object number 5 is named, and no object has that number"},
      {"]r\xff\xff\xff\x7f", "an object is given the number 2147483647, beyond the 8 bytes before it"},
      {"X\xff\xff\xff\x7f"
       "abc",
       "2147483647 bytes are announced and 4 are left"},
      {"X\x02\x00\x00\x00\xc3(", "bytes are announced"},
      {"\x8c\x02\xc3(", "a text of 2 bytes is not UTF-8"},
      {"K\x01K\x02", "the pickle ends with 2 values and 0 open groups instead of one value"},
      {"", "the pickle ends with 0 values"},
      {"K\x01(", "the pickle ends with 1 values and 1 open groups"},
      {"K\x01K\x02"
       "a",
       "items are appended to a value that is not a list"},
      {"K\x01K\x02K\x03s", "keys are set in a value that is not a dict"},
      {"K\x01K\x02"
       "b",
       "a state is given to a value that is not an object"},
      {"cos\nsystem\nK\x01R", "the arguments of a call are not a tuple"},
      {"K\x01)R", "what is called is neither a class nor a function"},
      {"c\nsystem\n", "a class has no proper name"},
      {"cos\nsystem", "a line does not end"},
      {"K\x01Q", "a persistent id is not that of a storage"},
      {"}(K\x01K\x02K\x01K\x03u", "the pickle holds a dict that has the key `1` twice"},
      {"}(\x88K\x02K\x01K\x03u", "the pickle holds a dict that has the key `1` twice"},
      {"ccollections\nOrderedDict\n](K\x01K\x02"
       "e\x85R",
       "an OrderedDict is made from something that is not a list of"},
      {"}(U\x01"
       "aK\x02U\x01"
       "aK\x03u",
       "the pickle holds a dict that has the key `a` twice"},
      {"}(U\x01"
       "aq\x01K\x02h\x01K\x03u",
       "the pickle holds a dict that has the key `a` twice"},
      {"]q\x01h\x01"
       "a",
       "the pickle holds an object that contains itself"},
      {"}q\x01(K\x01h\x01\x85u", "the pickle holds an object that contains itself"},
      {"\x80\x02", "it says protocol 2; protocols 2 to 5 are read, and said once at the beginning"},
  };
  for (const Refusal& refusal : refusals) {
    std::string instructions(refusal.instructions);
    if (refusal.instructions.starts_with("X\x02")) instructions = std::string("X\x02");
    EXPECT_THAT(PickleResult(Program(instructions)), HasSubstr(refusal.message)) << refusal.instructions;
  }
  EXPECT_THAT(PickleResult(Program("]") + "x"), HasSubstr("the pickle ends here, and 1 more bytes follow"));
  EXPECT_THAT(PickleResult("\x80\x01]."), HasSubstr("it says protocol 1"));
  EXPECT_THAT(PickleResult(""), HasSubstr("it does not begin as a pickle"));
}

// A call is data: it is neither looked up nor called.
TEST(PickleReader, CallsNothing) {
  EXPECT_EQ(PickleResult(Program("cos\nsystem\nU\x04true\x85R")), "os.system('true')");
}

TEST(PickleReader, RefusesDeepNestingWithoutRecursion) {
  const auto nested = [](std::size_t levels) {
    return Program(std::string(levels, ']') + std::string(levels - 1, 'a'));
  };
  EXPECT_THAT(PickleResult(nested(200)), StartsWith("[[["));
  EXPECT_THAT(PickleResult(nested(201)), HasSubstr("nests objects more than 200 levels deep"));
  EXPECT_THAT(PickleResult(nested(60'000)), HasSubstr("nests objects more than 200 levels deep"));
  // The same depth, but left on the stack or thrown away.
  EXPECT_THAT(PickleResult(Program("N" + std::string(60'000, '\x85') + "0N")), StartsWith("None"));
}

// Python 2's way; the entries are what a later SETITEMS adds to.
TEST(PickleReader, AnOrderedDictOfPairsHasTheirEntries) {
  const std::string made =
      PickleResult(Program("ccollections\nOrderedDict\n](K\x07K\x02\x86K\x08K\x03\x86"
                           "e\x85R"));
  const std::string filled = PickleResult(Program("ccollections\nOrderedDict\n)R(K\x07K\x02K\x08K\x03u"));
  EXPECT_EQ(made, filled);
  EXPECT_THAT(made, HasSubstr("7: 2, 8: 3"));
}

TEST(PickleReader, RefusesMoreObjectsThanBytes) {
  EXPECT_THAT(PickleResult(Program("(" + std::string(400'000, ']') + "l")), HasSubstr("more than any honest one"));
}

// A tensor that nothing leads to is emptied, and nothing else is.
TEST(PickleReader, EmptyContainersStayWhatTheyAre) {
  EXPECT_EQ(PickleResult(Program("}(K\x01]K\x02}K\x03)u")), "{1: [], 2: {}, 3: ()}");
}

// Thirty lists, each holding the one before twice: a billion leaves, and thirty lists.
TEST(PickleReader, SharingIsNotExpanded) {
  std::string program = "]q";
  program.push_back('\0');
  for (char i = 0; i < 30; ++i) {
    program += "0](h";
    program.push_back(i);
    program += 'h';
    program.push_back(i);
    program += "eq";
    program.push_back(static_cast<char>(i + 1));
  }
  const std::string printed = PickleResult(Program(program));
  EXPECT_LT(printed.size(), 1000u);
  EXPECT_THAT(printed, HasSubstr("[&30 [], *30]"));
}

std::string Repeated(std::string_view part, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += part;
  return all;
}

// One long text, named again and again where it would have to be copied.
TEST(PickleReader, TextIsNotMultiplied) {
  std::string text = "X";
  text.resize(5);
  PutField(text, 1, 1'000'000, 4);
  text += std::string(1'000'000, 'a') +
          "q\x01"
          "0";
  const std::string no_more = "uses the same text for more names or bytes than any honest one";
  EXPECT_THAT(PickleResult(Program(text +
                                   "c_codecs\nencode\nq\x02"
                                   "0(" +
                                   Repeated("h\x02h\x01U\x06latin1\x86R", 1000) + "l")),
              HasSubstr(no_more));
  EXPECT_THAT(PickleResult(Program(text + "h\x01U\x01x\x93")), HasSubstr("a class has no proper name"));
  EXPECT_THAT(PickleResult(Program("U\xf0" + std::string(0xf0, 'm') +
                                   "q\x01"
                                   "0(" +
                                   Repeated("h\x01h\x01\x93", 10'000) + "l")),
              HasSubstr(no_more));
  EXPECT_THAT(PickleResult(Program(text + "}(h\x01K\1U\1bK\1u")), HasSubstr("the pickle holds a key of 1000000 bytes"));
  // Naming it where it is not copied is fine, and is printed short.
  const std::string often = PickleResult(Program(text + "(" + Repeated("h\x01", 1000) + "l"));
  EXPECT_THAT(often, StartsWith("['aaaa"));
  EXPECT_LT(often.size(), 500'000u);
}

// A tensor in a storage of 4 float32, with these arguments behind the storage.
std::string TensorProgram(std::string_view offset_sizes_strides, std::string_view storage_class = "FloatStorage") {
  return Program("ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\n" + std::string(storage_class) +
                 "\nU\x01"
                 "0U\x03"
                 "cpuK\x04tQ" +
                 std::string(offset_sizes_strides) +
                 "\x89"
                 "ccollections\nOrderedDict\n)RtR");
}

TEST(PickleReader, TensorsLieWithinTheirStorage) {
  using std::string_literals::operator""s;
  EXPECT_EQ(PickleResult(TensorProgram("K\0K\4\x85K\1\x85"s)), "tensor<float32[4] at 0 of '0' float32 4 on cpu>");
  EXPECT_EQ(PickleResult(TensorProgram("K\3K\1\x85K\x64\x85"s)),
            "tensor<float32[1] strides [100] at 3 of '0' float32 4 on cpu>");
  const std::string beyond = "a tensor reaches beyond the 4 elements of its storage `0`";
  EXPECT_THAT(PickleResult(TensorProgram("K\1K\4\x85K\1\x85"s)), HasSubstr(beyond));
  EXPECT_THAT(PickleResult(TensorProgram("K\0K\2\x85K\4\x85"s)), HasSubstr(beyond));
  EXPECT_THAT(PickleResult(TensorProgram("K\4K\1\x85K\1\x85"s)), HasSubstr(beyond));
  EXPECT_THAT(PickleResult(TensorProgram("K\0J\xff\xff\xff\x7f\x85J\xff\xff\xff\x7f\x85"s)), HasSubstr(beyond));
  EXPECT_THAT(PickleResult(TensorProgram("J\xff\xff\xff\xffK\1\x85K\1\x85"s)), HasSubstr("impossible"));
  EXPECT_THAT(PickleResult(TensorProgram("K\0J\xff\xff\xff\xff\x85K\1\x85"s)),
              HasSubstr("a tensor has the size -1 with the stride 1"));
  EXPECT_THAT(PickleResult(TensorProgram("K\0K\1K\1\x86K\1\x85"s)), HasSubstr("not what PyTorch passes"));
  EXPECT_THAT(PickleResult(TensorProgram("K\0("s + std::string(65, ')') + "t)")),
              HasSubstr("a tensor has 65 dimensions"));
  EXPECT_THAT(PickleResult(TensorProgram("K\0(J\xff\xff\xff\x7fJ\xff\xff\xff\x7fJ\xff\xff\xff\x7ftK\0K\0K\0\x87"s)),
              HasSubstr("impossible"));
}

TEST(PickleReader, RefusesTensorsThatAreNotServed) {
  using std::string_literals::operator""s;
  EXPECT_THAT(PickleResult(TensorProgram("K\0K\4\x85K\1\x85"s, "QInt8Storage")),
              HasSubstr("a storage of the class `torch.QInt8Storage` is not served"));
  EXPECT_THAT(ArchiveResult(Sample("sparse.pt")),
              HasSubstr("a tensor of the kind that `_rebuild_sparse_tensor` makes is not served; only dense ones are"));
}

TEST(PickleReader, RefusesAStorageDescribedTwice) {
  EXPECT_THAT(PickleResult(Program("((U\x07storagectorch\nFloatStorage\nU\x01"
                                   "0U\x03"
                                   "cpuK\x04tQ"
                                   "(U\x07storagectorch\nFloatStorage\nU\x01"
                                   "0U\x03"
                                   "cpuK\x05tQt")),
              HasSubstr("the storage `0` is described twice, with 4 and with 5 elements"));
}

TEST(PickleReader, ACacheReadsEqualPicklesOnce) {
  PickleCache cache;
  const std::string pickle = SamplePickle("views.pt");
  auto first = cache.Read(pickle);
  auto second = cache.Read(pickle);
  auto other = cache.Read(SamplePickle("objects.pt"));
  ASSERT_TRUE(first && second && other);
  EXPECT_EQ(*first, *second);
  EXPECT_NE(*first, *other);
  auto failed = cache.Read("x");
  ASSERT_FALSE(failed);
  llvm::consumeError(failed.takeError());
}

}  // namespace
}  // namespace ucp::pytorch
