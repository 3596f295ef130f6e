// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/test/needs"
)

func run(arguments ...string) (string, error) {
	var out strings.Builder
	cmd := command(&out)
	cmd.SetArgs(arguments)
	err := cmd.Execute()
	return out.String(), err
}

func TestPrograms_ListAndNames_Found(t *testing.T) {
	out, err := run()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"alioth_from_pod ", "alioth_connect4 ", "alioth_stale "} {
		if !strings.Contains(out, want) {
			t.Errorf("the list lacks %s:\n%s", want, out)
		}
	}
	if _, err := run("nothing"); err == nil || !strings.Contains(err.Error(), "no program nothing; there are: alioth_") {
		t.Errorf("an unknown program: %v", err)
	}
	if _, err := run("--level", "all", "from_pod"); err == nil || !strings.Contains(err.Error(), "want one of: stats branches instructions") {
		t.Errorf("an unknown level: %v", err)
	}
}

func TestLog_LoadedProgram_Printed(t *testing.T) {
	needs.Root(t, "to load BPF programs")
	short, err := run("--level", "stats", "getpeername4")
	if err != nil || !strings.Contains(short, "processed ") {
		t.Errorf("the figures: %v\n%s", err, short)
	}
	// The kernel drops the log of branches of an accepted program, but for its global functions.
	branches, err := run("alioth_getpeername4")
	if err != nil || !strings.Contains(branches, "processed ") {
		t.Errorf("the log of branches: %v\n%s", err, branches)
	}
	long, err := run("--level", "instructions", "getpeername4")
	if err != nil || !strings.Contains(long, "processed ") || len(long) <= len(short) {
		t.Errorf("the log of instructions has %d characters, the figures have %d: %v", len(long), len(short), err)
	}
}

func TestLog_RefusedProgram_Printed(t *testing.T) {
	needs.Root(t, "to load BPF programs")
	cfg, err := everything().WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := programs.Specify(cfg)
	if err != nil {
		t.Fatal(err)
	}
	broken := spec.Programs["alioth_getpeername4"]
	broken.Instructions = asm.Instructions{asm.Return()}
	log, err := verify(spec, "alioth_getpeername4", branches)
	if err == nil || !strings.Contains(err.Error(), "the kernel refuses alioth_getpeername4") || !strings.Contains(log, "R0 !read_ok") {
		t.Errorf("a program without a result: %v\n%s", err, log)
	}
}
