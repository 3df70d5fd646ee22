// A checkpoint's inventory, written as comments of a golden file, so that a case needs no files:
//
//   // mesh: pp=2 tp=2
//   // fact: args.num_layers = 2
//   // tensor: 3.mlp.weight [8, 16] at pp=0 tp=0..1
//   // alias: lm_head.weight = embed.weight
//   // row parallel: .*down\.weight
//   // set: hidden = 16
//   // to: tp=4 pp=8+8+6 interleave=2
//
// `row parallel` is a pattern of the metadata that the checkpoint itself carries (layout/embedded_layout.h).
// `a..b` stands for every index from a to b. Each coordinate is a file of its own, "pp0_tp1.pt".
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <string_view>

#include "compiler/bind/bind.h"
#include "compiler/layout/inventory.h"
#include "compiler/layout/mesh.h"

namespace ucp::golden {

struct WrittenInventory {
  Inventory inventory;
  Settings set;               // As on the command line.
  std::optional<Degrees> to;  // The mesh to lower to; nothing: the source's.
};

llvm::Expected<WrittenInventory> ReadWrittenInventory(std::string_view spec);

}  // namespace ucp::golden
