// AVX-512 VNNI matrix product: four unsigned times signed products an instruction, one panel of 16
// output channels a register. Inputs are stored 128 higher, which the folded bias takes back.
#include "micro_ops/host/simd_levels.h"

#if defined(__x86_64__)

#include <algorithm>
#include <cstring>

#include "micro_ops/host/simd_avx2.h"

#define TFLM_TRAIN_VNNI __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512vnni")))
#define TFLM_TRAIN_VNNI_INLINE \
  __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512vnni"), always_inline)) inline

namespace tflm_train {
namespace {

constexpr int32_t kRows = 8;  // rows of one register tile
constexpr int32_t kStep = 4;  // products of one instruction

TFLM_TRAIN_AVX2 void Convert(const int8_t* x, int32_t n, void* out) {
  uint8_t* o = static_cast<uint8_t*>(out);
  for (int32_t i = 0; i < n; ++i) o[i] = static_cast<uint8_t>(x[i]) ^ 0x80u;
}

// sums[r][16] = bias + products of rows r with one panel of weights.
template <int kCount>
TFLM_TRAIN_VNNI_INLINE void VnniTile(const uint8_t* rows, int32_t stride, const int8_t* panel,
                                     int32_t steps, const int32_t* bias, int32_t* sums) {
  __m512i acc[kCount];
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) acc[r] = _mm512_loadu_si512(bias);
  for (int32_t s = 0; s < steps; ++s, panel += kStep * kPanel, rows += kStep) {
    const __m512i w = _mm512_loadu_si512(panel);
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      int32_t four;
      std::memcpy(&four, rows + r * stride, sizeof(four));
      acc[r] = _mm512_dpbusd_epi32(acc[r], _mm512_set1_epi32(four), w);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) _mm512_storeu_si512(sums + r * kPanel, acc[r]);
}

TFLM_TRAIN_VNNI void AnyVnniTile(int32_t count, const uint8_t* rows, int32_t stride,
                                 const int8_t* panel, int32_t steps, const int32_t* bias,
                                 int32_t* sums) {
  switch (count) {
    case 8:
      return VnniTile<8>(rows, stride, panel, steps, bias, sums);
    case 7:
    case 6:
    case 5:
    case 4:
      VnniTile<4>(rows, stride, panel, steps, bias, sums);
      rows += 4 * stride;
      sums += 4 * kPanel;
      count -= 4;
      break;
    default:
      break;
  }
  for (; count > 0; --count, rows += stride, sums += kPanel) {
    VnniTile<1>(rows, stride, panel, steps, bias, sums);
  }
}

// The same sums, lane by lane.
void EmulatedTile(int32_t count, const uint8_t* rows, int32_t stride, const int8_t* panel,
                  int32_t steps, const int32_t* bias, int32_t* sums) {
  for (int32_t r = 0; r < count; ++r) {
    for (int32_t lane = 0; lane < kPanel; ++lane) {
      uint32_t acc = static_cast<uint32_t>(bias[lane]);
      for (int32_t s = 0; s < steps; ++s) {
        for (int32_t i = 0; i < kStep; ++i) {
          acc += static_cast<uint32_t>(rows[r * stride + s * kStep + i] *
                                       panel[(s * kPanel + lane) * kStep + i]);
        }
      }
      sums[r * kPanel + lane] = static_cast<int32_t>(acc);
    }
  }
}

using TileFunction = void (*)(int32_t, const uint8_t*, int32_t, const int8_t*, int32_t,
                              const int32_t*, int32_t*);

template <bool kLeft, TileFunction kTile>
TFLM_TRAIN_AVX2 void GemmPanels(const PackedGemm& p, const uint8_t* a, int32_t rows, int8_t* out) {
  const int32_t stride = p.depth_padded;
  alignas(64) int32_t sums[kRows * kPanel] = {0};
  for (int32_t c = 0; c < p.columns; c += kPanel) {
    const avx2::PanelScale scale = avx2::MakePanelScale(p.scales, c);
    const int8_t* panel = p.weights.data() + static_cast<size_t>(c) * stride;
    const int32_t columns = std::min(kPanel, p.columns - c);
    for (int32_t r = 0; r < rows; r += kRows) {
      const int32_t count = std::min(kRows, rows - r);
      kTile(count, a + static_cast<size_t>(r) * stride, stride, panel, stride / kStep,
            p.scales.bias.data() + c, sums);
      avx2::RequantizeTile<kLeft, false>(scale, count, columns, p.columns, sums,
                                         out + static_cast<size_t>(r) * p.columns + c);
    }
  }
}

template <TileFunction kTile>
void Gemm(const PackedGemm& p, const void* rows_in, int32_t rows, int8_t* out) {
  const uint8_t* a = static_cast<const uint8_t*>(rows_in);
  if (p.scales.any_left_shift) {
    GemmPanels<true, kTile>(p, a, rows, out);
  } else {
    GemmPanels<false, kTile>(p, a, rows, out);
  }
}

template <TileFunction kTile>
void GemmSums(const PackedGemm& p, const void* rows_in, int32_t rows, int32_t pitch, int32_t* out) {
  const uint8_t* a = static_cast<const uint8_t*>(rows_in);
  const int32_t stride = p.depth_padded;
  alignas(64) int32_t sums[kRows * kPanel] = {0};
  for (int32_t c = 0; c < p.columns; c += kPanel) {
    const int8_t* panel = p.weights.data() + static_cast<size_t>(c) * stride;
    const int32_t columns = std::min(kPanel, p.columns - c);
    for (int32_t r = 0; r < rows; r += kRows) {
      const int32_t count = std::min(kRows, rows - r);
      kTile(count, a + static_cast<size_t>(r) * stride, stride, panel, stride / kStep,
            p.scales.bias.data() + c, sums);
      for (int32_t i = 0; i < count; ++i) {
        std::memcpy(out + static_cast<size_t>(r + i) * pitch + c, sums + i * kPanel,
                    sizeof(int32_t) * static_cast<size_t>(columns));
      }
    }
  }
}

// Everything but the matrix product is AVX2's.
template <TileFunction kTile>
SimdKernels MakeKernels(const char* name) {
  SimdKernels kernels = *Avx2Kernels();
  kernels.name = name;
  kernels.depth_step = kStep;
  kernels.input_bytes = 1;
  kernels.input_bias = 128;
  kernels.convert = &Convert;
  kernels.gemm = &Gemm<kTile>;
  kernels.gemm_sums = &GemmSums<kTile>;
  return kernels;
}

}  // namespace

const SimdKernels* Avx512VnniKernels() {
  if (Avx2Kernels() == nullptr || !__builtin_cpu_supports("avx512f") ||
      !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512vnni")) {
    return nullptr;
  }
  static const SimdKernels kernels = MakeKernels<&AnyVnniTile>("avx512vnni");
  return &kernels;
}

const SimdKernels* EmulatedVnniKernels() {
  if (Avx2Kernels() == nullptr) return nullptr;
  static const SimdKernels kernels = MakeKernels<&EmulatedTile>("avx512vnni-emulated");
  return &kernels;
}

}  // namespace tflm_train

#else

namespace tflm_train {
const SimdKernels* Avx512VnniKernels() { return nullptr; }
const SimdKernels* EmulatedVnniKernels() { return nullptr; }
}  // namespace tflm_train

#endif  // defined(__x86_64__)
