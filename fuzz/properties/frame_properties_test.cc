// Laws of the frames between engine and worker (harness/worker/frame.h): a decoder that is fed in
// any pieces and asked at any time gives the frames that were written, in order, and nothing else.
#include <rapidcheck/state.h>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/properties/property.h"
#include "harness/worker/frame.h"

namespace shardfuzz {
namespace {

using Next = FrameDecoder::Next;

const std::vector<FrameKind> kKinds{FrameKind::kHello,    FrameKind::kRequest,   FrameKind::kAnswer,
                                    FrameKind::kProgress, FrameKind::kLastWords, FrameKind::kQuit};

// Payloads around the sizes that the code knows: none, one byte, a pipe's buffer, the size at which
// the decoder drops what it has handed out.
std::size_t any_payload_bytes(Random* random) {
  static constexpr std::size_t kBytes[] = {0, 1, 5, 100, 255, 256, 4091, 4096, 65531, 65536, 70000};
  return kBytes[random->below(std::size(kBytes))];
}

struct Stream {
  std::string bytes;
  std::vector<Frame> frames;
  bool ends_in_noise = false;
};

Stream stream_of(std::uint64_t seed) {
  Random random(seed);
  Stream stream;
  for (std::uint64_t i = random.below(8); i > 0; --i) {
    Frame frame{.kind = kKinds[random.below(kKinds.size())]};
    frame.payload.resize(any_payload_bytes(&random));
    for (char& c : frame.payload) c = static_cast<char>(random.next());
    stream.bytes += encode_frame(frame.kind, frame.payload);
    stream.frames.push_back(std::move(frame));
  }
  stream.ends_in_noise = random.chance(30);
  if (!stream.ends_in_noise) return stream;
  // A kind that is none, or a length above the limit; either is seen by the header alone.
  stream.bytes += random.chance(50) ? std::string("\x04\0\0\0?", 5) : std::string("\1\0\0\4A", 5);
  stream.bytes += "rest";
  return stream;
}

// ---- a stateful model ---------------------------------------------------------------------------

// What has been fed and taken of a stream. The model looks at the list of frames, not at bytes.
struct Wire {
  std::shared_ptr<const Stream> stream;
  std::size_t fed = 0;    // bytes
  std::size_t taken = 0;  // frames
  std::size_t taken_bytes = 0;

  [[nodiscard]] std::size_t pending() const { return fed - taken_bytes; }
  [[nodiscard]] bool all_taken() const { return taken == stream->frames.size(); }
  [[nodiscard]] std::size_t next_bytes() const {
    return kFrameHeaderBytes + stream->frames[taken].payload.size();
  }
  [[nodiscard]] Next next() const {
    if (pending() < kFrameHeaderBytes) return Next::kNeedMore;
    if (all_taken()) return Next::kBroken;  // only noise is left
    return pending() < next_bytes() ? Next::kNeedMore : Next::kFrame;
  }
};

using WireCommand = rc::state::Command<Wire, FrameDecoder>;

struct Feed : WireCommand {
  std::size_t byte_count;

  explicit Feed(const Wire& wire) {
    const std::size_t left = wire.stream->bytes.size() - wire.fed;
    RC_PRE(left > 0);
    // To just before, at and just behind the end of the frame that is next, or any number.
    const std::size_t wanted = wire.all_taken() ? kFrameHeaderBytes : wire.next_bytes();
    const std::size_t missing = wanted > wire.pending() ? wanted - wire.pending() : 1;
    const auto piece =
        *rc::gen::element<std::size_t>(1, 4, missing - 1, missing, missing + 1, left);
    byte_count = std::clamp<std::size_t>(piece, 1, left);
  }
  void checkPreconditions(const Wire& wire) const override {
    RC_PRE(wire.fed + byte_count <= wire.stream->bytes.size());
  }
  void apply(Wire& wire) const override { wire.fed += byte_count; }
  void run(const Wire& wire, FrameDecoder& decoder) const override {
    decoder.feed(wire.stream->bytes.data() + wire.fed, byte_count);
    RC_ASSERT(decoder.pending_bytes() == wire.pending() + byte_count);
  }
  void show(std::ostream& out) const override { out << "feed " << byte_count; }
};

struct Take : WireCommand {
  void apply(Wire& wire) const override {
    if (wire.next() != Next::kFrame) return;
    wire.taken_bytes += wire.next_bytes();
    ++wire.taken;
  }
  void run(const Wire& wire, FrameDecoder& decoder) const override {
    Frame frame;
    RC_ASSERT(decoder.next(&frame) == wire.next());
    if (wire.next() == Next::kFrame) {
      RC_ASSERT(frame.kind == wire.stream->frames[wire.taken].kind);
      RC_ASSERT(frame.payload == wire.stream->frames[wire.taken].payload);
    }
    RC_ASSERT(decoder.error().empty() == (wire.next() != Next::kBroken));
  }
  void show(std::ostream& out) const override { out << "take"; }
};

RC_GTEST_PROP(FrameDecoder, FedAndAskedInAnyOrderItGivesWhatWasWritten, ()) {
  const Wire start{.stream = std::make_shared<const Stream>(stream_of(any_seed()))};
  FrameDecoder decoder;
  rc::state::check(start, decoder, rc::state::gen::execOneOfWithArgs<Feed, Take>());
}

// ---- whole streams ------------------------------------------------------------------------------

RC_GTEST_PROP(FrameDecoder, EveryCutOfAStreamGivesTheSameFrames, ()) {
  const Stream stream = stream_of(any_seed());
  Random random(any_seed());
  const std::uint64_t piece_max = *rc::gen::element<std::uint64_t>(3, 100, 9000, 200000);
  FrameDecoder decoder;
  std::vector<Frame> frames;
  Next last = Next::kNeedMore;
  for (std::size_t fed = 0; fed < stream.bytes.size();) {
    const std::size_t piece =
        std::min<std::size_t>(1 + random.below(piece_max), stream.bytes.size() - fed);
    decoder.feed(stream.bytes.data() + fed, piece);
    fed += piece;
    Frame frame;
    while ((last = decoder.next(&frame)) == Next::kFrame) frames.push_back(frame);
  }
  RC_ASSERT(frames == stream.frames);
  RC_ASSERT(last == (stream.ends_in_noise ? Next::kBroken : Next::kNeedMore));
  if (!stream.ends_in_noise) RC_ASSERT(decoder.pending_bytes() == 0U);
}

}  // namespace
}  // namespace shardfuzz

int main(int argc, char** argv) { return shardfuzz::run_properties(argc, argv, "max_success=400"); }
