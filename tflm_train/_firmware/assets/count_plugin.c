/* A QEMU TCG plug-in that counts the instructions between two addresses, each time they are met.
   Arguments: begin=0x…,end=0x…. One line {"cycles": N} per pair, where N counts instructions.

   QEMU's header is not packaged everywhere; the calls that are used are declared here, as version 1
   of the plug-in interface has them. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { kNoRegisters = 0 };
enum { kAddU64 = 0 };

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*callback)(qemu_plugin_id_t, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
                                            void (*callback)(unsigned int, void *), int flags,
                                            void *data);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *to,
                                                uint64_t value);

static uint64_t begin_address, end_address;
static uint64_t instructions, at_begin;

static void OnBegin(unsigned int cpu, void *data) {
  (void)cpu;
  (void)data;
  at_begin = instructions;
}

static void OnEnd(unsigned int cpu, void *data) {
  (void)cpu;
  (void)data;
  fprintf(stderr, "{\"cycles\": %" PRIu64 "}\n", instructions - at_begin);
  fflush(stderr);
}

static void OnTranslate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
  (void)id;
  for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); ++i) {
    struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
    const uint64_t address = qemu_plugin_insn_vaddr(insn);
    if (address == begin_address) qemu_plugin_register_vcpu_insn_exec_cb(insn, OnBegin, kNoRegisters, NULL);
    if (address == end_address) qemu_plugin_register_vcpu_insn_exec_cb(insn, OnEnd, kNoRegisters, NULL);
    qemu_plugin_register_vcpu_insn_exec_inline(insn, kAddU64, &instructions, 1);
  }
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc,
                               char **argv) {
  (void)info;
  for (int i = 0; i < argc; ++i) {
    if (strncmp(argv[i], "begin=", 6) == 0) begin_address = strtoull(argv[i] + 6, NULL, 0);
    if (strncmp(argv[i], "end=", 4) == 0) end_address = strtoull(argv[i] + 4, NULL, 0);
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, OnTranslate);
  return 0;
}
