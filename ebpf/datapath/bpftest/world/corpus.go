// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// Environment of TestPrograms_MutatedFrames_RulesHold: how long it makes frames, and
// the seed of its random numbers.
const (
	mutateFor  = "ALIOTH_MUTATE"
	mutateSeed = "ALIOTH_MUTATE_SEED"
)

// Kinds of program that frames are run through.
const (
	KindPod = iota
	KindStack
	KindTunnel
	KindUnderlay
	KindFragment
	Kinds
)

// kindOf returns the kind of the program. A program that is not ours leads to the program behind
// the tunnel.
func kindOf(t testing.TB, p *ebpf.Program) int {
	t.Helper()
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	for kind, name := range map[int]string{
		KindPod: "alioth_from_pod", KindStack: "alioth_to_pod", KindUnderlay: "alioth_from_und", KindFragment: "alioth_fragment",
	} {
		if strings.HasPrefix(info.Name, name) {
			return kind
		}
	}
	return KindTunnel
}

// seeds are the frames that tests have run, by the kind of program that they
// were for.
type seeds struct {
	Frames [Kinds][][]byte
	seen   map[string]bool
	Closed bool
}

// Corpus is filled by all tests of a package that run before its reader.
var Corpus = seeds{seen: map[string]bool{}}

func (s *seeds) add(t testing.TB, p *ebpf.Program, in []byte) {
	t.Helper()
	if s.Closed || s.seen[string(in)] {
		return
	}
	s.seen[string(in)] = true
	kind := kindOf(t, p)
	s.Frames[kind] = append(s.Frames[kind], slices.Clone(in))
}

// Runnable brings a frame to a length that the kernel's test run accepts: it requires the
// whole headers that the EtherType announces.
func Runnable(b []byte) []byte {
	least := 15
	if len(b) >= 14 {
		switch binary.BigEndian.Uint16(b[12:]) {
		case 0x0800:
			least = 34
		case 0x86dd:
			least = 54
		}
	}
	if len(b) < least {
		return Runnable(append(b, make([]byte, least-len(b))...))
	}
	return b[:min(len(b), 1600)]
}

// Mutations returns the duration of the mutations, and their seed.
func Mutations(t testing.TB) (duration time.Duration, seed uint64) {
	t.Helper()
	duration, seed = 2*time.Second, uint64(time.Now().UnixNano())
	if text := os.Getenv(mutateFor); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv(mutateSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d repeats this, after the same tests", mutateSeed, seed)
	return duration, seed
}
