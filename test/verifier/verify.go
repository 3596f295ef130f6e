// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

// level is the detail of a log. It is a flag.
type level string

const (
	stats        level = "stats"
	branches     level = "branches"
	instructions level = "instructions"
)

// levels are the levels of the kernel. Each log ends with the figures.
var levels = map[level]ebpf.LogLevel{
	stats:        ebpf.LogLevelStats,
	branches:     ebpf.LogLevelStats | ebpf.LogLevelBranch,
	instructions: ebpf.LogLevelStats | ebpf.LogLevelInstruction,
}

func (l *level) String() string { return string(*l) }

// Type returns the word in the help of a command.
func (l *level) Type() string { return "level" }

// Set implements pflag.Value.
func (l *level) Set(text string) error {
	if _, ok := levels[level(text)]; !ok {
		return fmt.Errorf("want one of: %s %s %s", stats, branches, instructions)
	}
	*l = level(text)
	return nil
}

// everything returns a configuration with all parts that a node can have: the verifier leaves out
// the code of parts that are off. The numbers of devices mean nothing, because nothing is attached.
func everything() programs.Config {
	return programs.Config{
		VXLANIfindex: 1, UnderlayIfindex: 2, UnderlayIfindex6: 2, FragmentIfindex: 3, FragmentPeerIfindex: 4,
		TunnelSource4: netip.MustParseAddr("192.0.2.1"), TunnelSource6: netip.MustParseAddr("2001:db8::1"),
		NodeShadow4: netip.MustParseAddr("169.254.64.1"), NodeShadow6: netip.MustParseAddr("fd41:6c69:6f74:6801::1"),
		LinkPort: 4790, GuardedPort: 9999, PodCgroup: "/", ConnectedDatagrams: true, Connections: 1024,
	}
}

// list prints the programs by name, with their type and number of instructions.
func list(out io.Writer, spec *ebpf.CollectionSpec) {
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		p := spec.Programs[name]
		fmt.Fprintf(out, "%-22s %-18s %5d instructions\n", name, p.Type, len(p.Instructions))
	}
}

// verify loads a program alone and returns the log of the verifier, with an error if the kernel
// refuses the program.
func verify(spec *ebpf.CollectionSpec, name string, what level) (log string, err error) {
	if _, ok := spec.Programs[name]; !ok {
		if _, ok = spec.Programs[bpf.Prefix+name]; !ok {
			return "", fmt.Errorf(
				"no program %s; there are: %s",
				name,
				strings.Join(slices.Sorted(maps.Keys(spec.Programs)), " "),
			)
		}
		name = bpf.Prefix + name
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return "", fmt.Errorf("lift the limit of locked memory, which needs root: %w", err)
	}
	one := spec.Copy()
	one.Programs = map[string]*ebpf.ProgramSpec{name: spec.Programs[name].Copy()}
	collection, err := ebpf.NewCollectionWithOptions(
		one,
		ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{LogLevel: levels[what]}},
	)
	if refused := (*ebpf.VerifierError)(nil); errors.As(err, &refused) {
		return strings.Join(refused.Log, "\n"), fmt.Errorf("the kernel refuses %s: %w", name, refused.Cause)
	}
	if errors.Is(err, os.ErrPermission) {
		return "", fmt.Errorf("load %s, which needs root: %w", name, err)
	}
	if err != nil {
		return "", fmt.Errorf("load %s: %w", name, err)
	}
	defer collection.Close()
	return collection.Programs[name].VerifierLog, nil
}
