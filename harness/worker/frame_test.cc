#include "harness/worker/frame.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace shardfuzz {
namespace {

using Next = FrameDecoder::Next;

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(int i) {
    if (ends[i] >= 0) close(ends[i]);
    ends[i] = -1;
  }
  int ends[2];
};

TEST(Frame, WireFormIsLengthKindPayload) {
  EXPECT_EQ(encode_frame(FrameKind::kAnswer, "{}"), std::string("\x02\0\0\0A{}", 7));
  EXPECT_EQ(encode_frame(FrameKind::kQuit, ""), std::string("\0\0\0\0Q", 5));
  EXPECT_EQ(encode_frame(FrameKind::kRequest, std::string(0x10203, 'x')).substr(0, 5),
            std::string("\x03\x02\x01\0R", 5));
}

TEST(Frame, DecoderGivesTheSameFramesForEverySplit) {
  const std::string bytes = encode_frame(FrameKind::kProgress, "one") +
                            encode_frame(FrameKind::kAnswer, "") +
                            encode_frame(FrameKind::kLastWords, "three");
  for (std::size_t split = 0; split <= bytes.size(); ++split) {
    FrameDecoder decoder;
    std::string seen;
    for (const auto& part : {bytes.substr(0, split), bytes.substr(split)}) {
      decoder.feed(part.data(), part.size());
      Frame frame;
      while (decoder.next(&frame) == Next::kFrame) {
        seen += static_cast<char>(frame.kind) + frame.payload + ";";
      }
    }
    EXPECT_EQ(seen, "Pone;A;Lthree;") << "split at " << split;
    EXPECT_EQ(decoder.pending_bytes(), 0u);
  }
}

TEST(Frame, DecoderStaysRightOverManyFramesOfOneStream) {
  FrameDecoder decoder;
  std::size_t next_id = 0;
  for (std::size_t round = 0; round < 100; ++round) {
    std::string bytes;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t id = 3 * round + i;
      bytes += encode_frame(FrameKind::kProgress, std::to_string(id) + std::string(id * 50, 'x'));
    }
    // The end of each round's last frame comes with the next round.
    const std::size_t held_back = 7;
    decoder.feed(bytes.data(), bytes.size() - held_back);
    Frame frame;
    while (decoder.next(&frame) == Next::kFrame) {
      ASSERT_EQ(frame.payload, std::to_string(next_id) + std::string(next_id * 50, 'x'));
      ++next_id;
    }
    EXPECT_EQ(next_id, 3 * round + 2);
    decoder.feed(bytes.data() + bytes.size() - held_back, held_back);
    ASSERT_EQ(decoder.next(&frame), Next::kFrame);
    ++next_id;
    EXPECT_EQ(decoder.pending_bytes(), 0u);
  }
}

TEST(Frame, DecoderRefusesUnknownKindsAndHugePayloads) {
  Frame frame;
  FrameDecoder noise;
  noise.feed("hello world", 11);
  EXPECT_EQ(noise.next(&frame), Next::kBroken);
  EXPECT_EQ(noise.error(), "unknown frame kind 0x6f");
  noise.feed("\0\0\0\0A", 5);
  EXPECT_EQ(noise.next(&frame), Next::kBroken) << "stays broken";

  FrameDecoder huge;
  huge.feed(
      "\x01\0\0\x04"
      "A",
      5);  // 64 MiB + 1
  EXPECT_EQ(huge.next(&frame), Next::kBroken);
  EXPECT_EQ(huge.error(), "a frame of 67108865 bytes, above the limit of 67108864");
  FrameDecoder largest;
  largest.feed(
      "\0\0\0\x04"
      "A",
      5);
  EXPECT_EQ(largest.next(&frame), Next::kNeedMore);
}

TEST(Frame, ReadAndWriteOverAPipeSmallerThanTheFrame) {
  Pipe pipe;
  const std::string payload(3'000'000, 'z');
  std::thread writer([&] {
    EXPECT_TRUE(write_frame(pipe.ends[1], FrameKind::kRequest, payload));
    pipe.close_end(1);
  });
  Frame frame;
  ASSERT_EQ(read_frame(pipe.ends[0], &frame), ReadStatus::kFrame);
  EXPECT_EQ(frame.kind, FrameKind::kRequest);
  EXPECT_EQ(frame.payload, payload);
  EXPECT_EQ(read_frame(pipe.ends[0], &frame), ReadStatus::kEnd);
  writer.join();
}

TEST(Frame, ReadTellsAnEndFromACutAndFromNoise) {
  const auto read_one = [](std::string_view bytes) {
    Pipe pipe;
    EXPECT_EQ(write(pipe.ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    pipe.close_end(1);
    Frame frame;
    return read_frame(pipe.ends[0], &frame);
  };
  EXPECT_EQ(read_one({"\0\0\0\0Q", 5}), ReadStatus::kFrame);
  EXPECT_EQ(read_one({"\0\0\0", 3}), ReadStatus::kCut);
  EXPECT_EQ(read_one({"\x09\0\0\0Rabc", 8}), ReadStatus::kCut);
  EXPECT_EQ(read_one("print to the wrong place"), ReadStatus::kBroken);
  Frame frame;
  EXPECT_EQ(read_frame(-1, &frame), ReadStatus::kFailed);
  EXPECT_FALSE(write_frame(-1, FrameKind::kAnswer, ""));
}

TEST(Frame, LastWordsAreCutToOneAtomicFrameAndKeepErrno) {
  Pipe pipe;
  const std::string words(10'000, 'w');
  errno = ENOENT;
  write_last_words(-1, words.data(), words.size());
  EXPECT_EQ(errno, ENOENT) << "also where nobody listens";
  write_last_words(pipe.ends[1], words.data(), words.size());
  EXPECT_EQ(errno, ENOENT);
  Frame frame;
  ASSERT_EQ(read_frame(pipe.ends[0], &frame), ReadStatus::kFrame);
  EXPECT_EQ(frame.kind, FrameKind::kLastWords);
  EXPECT_EQ(frame.payload, words.substr(0, kAtomicBytes - kFrameHeaderBytes));
}

}  // namespace
}  // namespace shardfuzz
