// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/test/bench/figures"
)

// figureRounds is how often each is measured, manyVLANs and manyShown are how many
// interfaces there are then.
const figureRounds, manyVLANs, manyShown = 5, 200, 500

// printFigure prints a duration in ms.
func printFigure(t *testing.T, what, path string, took time.Duration) {
	t.Helper()
	if err := (figures.Line{What: what, Path: path, Values: figures.Series{took.Seconds() * 1000}}).Print(os.Stdout); err != nil {
		t.Fatal(err)
	}
}

// batch runs commands of iproute2 on the node, and returns how long it took.
func (w world) batch(t *testing.T, commands string) (took time.Duration) {
	t.Helper()
	testnet.In(t, w.node, func() error {
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(commands)
		began := time.Now()
		out, err := cmd.CombinedOutput()
		if took = time.Since(began); err != nil {
			return fmt.Errorf("run the batch: %w: %s", err, out)
		}
		return nil
	})
	return took
}

// TestFigures_ManyInterfaces_ShowTimeMeasured measures, for `make bench` alone.
func TestFigures_ManyInterfaces_ShowTimeMeasured(t *testing.T) {
	figures.Wanted(t)
	w := newWorld(t)
	var add strings.Builder
	for n := range manyShown / 2 {
		fmt.Fprintf(&add, "link add v%d type veth peer name w%d\naddr add 10.%d.%d.1/24 dev v%d\nlink set v%d up\n", n, n, n/250, n%250, n, n)
	}
	w.batch(t, add.String())
	testnet.In(t, w.node, func() error {
		h, err := open(w.dir)
		if err != nil {
			return err
		}
		defer h.Close()
		for range figureRounds {
			began := time.Now()
			state, err := h.Show(t.Context())
			if err != nil {
				return err
			}
			if took := time.Since(began); len(state.Interfaces) > manyShown {
				printFigure(t, fmt.Sprintf("show of %d interfaces", manyShown), figures.Alioth, took)
			} else {
				t.Errorf("it shows %d", len(state.Interfaces))
			}
		}
		return nil
	})
}

// TestFigures_ManyVLANState_ComparedWithCommandBatch measures, for `make bench` alone, a state with
// many VLANs, whose transaction has its guard, and a batch of iproute2 that makes as many.
func TestFigures_ManyVLANState_ComparedWithCommandBatch(t *testing.T) {
	figures.Wanted(t)
	w := newWorld(t)
	var add, del, state, none strings.Builder
	state.WriteString("interfaces:\n")
	none.WriteString("interfaces:\n")
	for n := range manyVLANs {
		fmt.Fprintf(&add, "link add link eth0 name v%d type vlan id %d\nlink set v%d up\n", n, 100+n, n)
		fmt.Fprintf(&del, "link del v%d\n", n)
		fmt.Fprintf(&state, "- {name: v%d, type: vlan, state: up, vlan: {base-iface: eth0, id: %d}}\n", n, 100+n)
		fmt.Fprintf(&none, "- {name: v%d, state: absent}\n", n)
	}
	ours := func() (took time.Duration) {
		desired, err := document.Parse([]byte(state.String()))
		if err != nil {
			t.Fatal(err)
		}
		err = w.manager(t, func(cfg *transaction.Config) { cfg.Log = io.Discard }, func(m *transaction.Manager) error {
			began := time.Now()
			_, err := m.Apply(t.Context(), desired, transaction.Options{Timeout: time.Hour})
			took = time.Since(began)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		w.apply(t, none.String())
		return took
	}
	theirs := func() time.Duration {
		took := w.batch(t, add.String())
		w.batch(t, del.String())
		return took
	}
	for round := range figureRounds {
		paths := []string{figures.Alioth, "ip -batch"}
		if round%2 == 1 {
			slices.Reverse(paths)
		}
		for _, path := range paths {
			run := map[string]func() time.Duration{figures.Alioth: ours, "ip -batch": theirs}[path]
			printFigure(t, fmt.Sprintf("%d VLANs of a state", manyVLANs), path, run())
		}
	}
}
