// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/judged"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

// Linux 6.1 gives a program and the functions that it is in this many bytes of stack together,
// and rounds the size of each up to stackUnit (check_max_stack_depth of its verifier). Later
// kernels round less, and take programs that 6.1 refuses.
const (
	stackRoom = 512
	stackUnit = 32
)

// function is one of a program, with the bytes of stack that it takes itself.
type function struct {
	stack int
	calls map[string]bool
}

// functions reads the functions of a program from the verifier's log, in the order of the log.
// The first function is the program's beginning.
func functions(t *testing.T, spec *ebpf.ProgramSpec, log string) (list map[string]*function, entry string) {
	t.Helper()
	reported := regexp.MustCompile(`stack depth ([0-9+]+)`).FindStringSubmatch(log)
	if reported == nil {
		t.Fatal("the verifier tells nothing of the stack")
	}
	sizes := strings.Split(reported[1], "+")
	list = map[string]*function{}
	var current *function
	for _, ins := range spec.Instructions {
		if name := ins.Symbol(); name != "" {
			if entry == "" {
				entry = name
			}
			size, err := strconv.Atoi(sizes[len(list)])
			bpftest.Must(t, err)
			current = &function{stack: size, calls: map[string]bool{}}
			list[name] = current
		}
		if ins.IsFunctionCall() {
			current.calls[ins.Reference()] = true
		}
	}
	if len(list) != len(sizes) {
		t.Fatalf("the verifier tells of %d functions, of which the program has %d", len(sizes), len(list))
	}
	return list, entry
}

// deepest returns the most stack that a function and its called functions take together, and
// their names.
func deepest(list map[string]*function, name string) (size int, way string) {
	for callee := range list[name].calls {
		if s, w := deepest(list, callee); s > size {
			size, way = s, " "+w
		}
	}
	own := (max(list[name].stack, 1) + stackUnit - 1) / stackUnit * stackUnit
	return size + own, name + way
}

func TestPrograms_EachOne_FitsStackOfLinux61(t *testing.T) {
	bpftest.InNamespace(t)
	cfg, err := programs.Config{VXLANIfindex: 1, Connections: bpftest.Connections}.WithDefaults()
	bpftest.Must(t, err)
	spec, err := programs.Specify(cfg)
	bpftest.Must(t, err)
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats},
	})
	bpftest.Must(t, err)
	defer coll.Close()
	for name, p := range coll.Programs {
		list, entry := functions(t, spec.Programs[name], p.VerifierLog)
		if size, way := deepest(list, entry); size > stackRoom {
			t.Errorf("%s takes %d bytes of stack, more than %d, along %s", name, size, stackRoom, way)
		}
	}
}

// judgeRoom is the stack that the programs have left for the judgement at its deepest place: in
// missed, below alioth_from_pod.
const judgeRoom = 128

func TestJudge_AnyCaller_FitsStackOfLinux61(t *testing.T) {
	bpftest.InNamespace(t)
	const name = "alioth_judge"
	spec, err := judged.LoadJudged()
	bpftest.Must(t, err)
	var loaded struct {
		Judge *ebpf.Program `ebpf:"alioth_judge"`
	}
	bpftest.Must(t, spec.LoadAndAssign(&loaded, &ebpf.CollectionOptions{
		Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats},
	}))
	defer loaded.Judge.Close()
	list, _ := functions(t, spec.Programs[name], loaded.Judge.VerifierLog)
	if size, way := deepest(list, "judge"); size > judgeRoom {
		t.Errorf("the judgement takes %d bytes of stack, more than %d, along %s", size, judgeRoom, way)
	}
	info, err := loaded.Judge.Info()
	bpftest.Must(t, err)
	n, ok := info.VerifiedInstructions()
	t.Logf("the verifier looks at %d instructions", n)
	if !ok || n > mostVerified/4 {
		t.Errorf("for the judgement the verifier looks at %d instructions (told: %v), more than %d", n, ok, mostVerified/4)
	}
}
