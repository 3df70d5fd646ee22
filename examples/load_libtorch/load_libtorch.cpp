// On every rank of an MPI job, loads that rank's shards of a checkpoint of another topology into LibTorch tensors, and
// prints a checksum of each:
//   mpirun -n 4 load_libtorch checkpoints/ deepspeed:tp=2,dp=2,zero=1 llama
// The last argument, a spec, is for checkpoints that tensor parallelism cuts.
#include <mpi.h>
#include <torch/types.h>
#include <ucp/load.h>
#include <ucp/mpi.h>

#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

// A state of a tensor, as this rank has it.
struct Shard {
  ucp::ShardPart part;
  torch::Tensor values;
};

torch::Dtype DtypeOf(const std::string& name) {
  static const std::map<std::string, torch::Dtype> kDtypes = {
      {"float32", torch::kFloat32}, {"float16", torch::kFloat16}, {"bfloat16", torch::kBFloat16},
      {"float64", torch::kFloat64}, {"int64", torch::kInt64},     {"int32", torch::kInt32},
      {"uint8", torch::kUInt8},     {"bool", torch::kBool},
  };
  return kDtypes.at(name);
}

// The library fills memory that LibTorch has made, so that nothing is copied: a shard is a view of its block. A shard
// that the rank holds whole has its shape, and one that ZeRO cuts is a row of elements.
std::vector<Shard> Load(const ucp::LoadSource& source, const std::string& strategy, ucp::MpiRanks& ranks) {
  ucp::ShardLoad load(source, strategy, {}, {.ranks = &ranks});
  std::vector<torch::Tensor> blocks;
  std::vector<std::span<std::byte>> memory;
  for (std::uint64_t bytes : load.block_bytes()) {
    blocks.push_back(torch::empty(static_cast<std::int64_t>(bytes), torch::kUInt8));
    memory.emplace_back(static_cast<std::byte*>(blocks.back().data_ptr()), bytes);
  }
  load.Fill(memory);
  std::vector<Shard> shards;
  for (const ucp::ShardPart& part : load.parts()) {
    const auto begin = static_cast<std::int64_t>(part.offset);
    const auto bytes = static_cast<std::int64_t>(part.bytes());
    torch::Tensor values = blocks[part.block].narrow(0, begin, bytes).view(DtypeOf(part.dtype));
    shards.push_back({part, part.is_all() ? values.view(part.shape) : values});
  }
  return shards;
}

// Of the bytes, each times its place, so that it tells order and contents.
std::int64_t Checksum(const torch::Tensor& values) {
  const torch::Tensor bytes = values.reshape(-1).view(torch::kUInt8).to(torch::kInt64);
  return (bytes * torch::arange(1, bytes.numel() + 1)).sum().item<std::int64_t>();
}

int Run(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::cerr << "usage: mpirun -n RANKS load_libtorch CHECKPOINT STRATEGY [SPEC]\n";
    return 1;
  }
  ucp::MpiRanks ranks;
  try {
    std::ostringstream lines;
    for (const Shard& shard : Load({.path = argv[1], .spec = argc == 4 ? argv[3] : ""}, argv[2], ranks)) {
      const ucp::ShardPart& part = shard.part;
      lines << "rank " << ranks.rank() << " " << part.tensor << " " << part.state << " " << part.dtype << " "
            << shard.values.sizes() << " " << part.begin << ".." << part.end << " " << Checksum(shard.values) << "\n";
    }
    // A launcher may mix what several ranks write.
    for (const std::string& of_rank : ranks.AllGather(lines.str())) {
      if (ranks.rank() == 0) std::cout << of_rank;
    }
    std::cout << std::flush;
    return 0;
  } catch (const std::exception& error) {
    if (ranks.rank() == 0) std::cerr << "load_libtorch: " << error.what() << "\n";  // All ranks have the same.
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  const int code = Run(argc, argv);
  MPI_Finalize();
  return code;
}
