// Loads what one rank of a job would hold of a checkpoint, and says what that is:
//   load_shards checkpoints/ deepspeed:dp=4,zero=1 2
#include <ucp/load.h>

#include <iostream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: load_shards CHECKPOINT STRATEGY RANK\n";
    return 1;
  }
  try {
    ucp::ShardLoad load({.path = argv[1]}, argv[2], {.rank = std::stoi(argv[3])});
    ucp::LoadTotals totals = load.Fill();
    for (const ucp::ShardPart& part : load.parts()) {
      std::cout << part.tensor << " " << part.state << ": " << part.dtype << " " << part.begin << ".." << part.end
                << ", " << load.BytesOf(part).size() << " bytes\n";
    }
    std::cout << totals.bytes_read << " bytes read\n";
  } catch (const std::exception& error) {
    std::cerr << "load_shards: " << error.what() << "\n";
    return 1;
  }
}
