// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/probe"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
)

// stuck is a Host that carries out no step, and counts how often it is looked at.
type stuck struct {
	Host
	steps int
	state string
}

func (s *stuck) Show(context.Context) (*document.State, error) {
	return document.Parse([]byte(s.state))
}

func (s *stuck) Do(context.Context, plan.Step) error { return errors.New("the device is gone") }

func (s *stuck) Image(context.Context, snapshot.Area) (*snapshot.Image, error) {
	s.steps++
	return nil, errors.New("the device is gone")
}

// bare are safeguards without guards and probes.
type bare struct{}

func (bare) Permit(*document.State, []plan.Step) error { return nil }

func (bare) StartGuard(string) (int, error) { return 0, errors.New("none") }

func (bare) Probes(context.Context, probe.Change) func(*document.State) []probe.Probe {
	return func(*document.State) []probe.Probe { return nil }
}

func (bare) Ready(context.Context, []document.Interface) error { return nil }

func stuckManager(t *testing.T, h *stuck) *Manager {
	t.Helper()
	m, err := New(Config{
		Dir: t.TempDir(), Host: h, Tries: 1, Interval: time.Millisecond, Log: io.Discard,
		Safeguards: bare{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGuard_RepeatedFailures_GivesUpAndFreesHost(t *testing.T) {
	const now, before = "interfaces: [{name: eth0, type: ethernet, state: up, mtu: 1400}]", "interfaces: [{name: eth0, type: ethernet, state: up, mtu: 1500}]"
	h := &stuck{state: now}
	m := stuckManager(t, h)
	r := &Record{ID: "one", Boot: m.boot, Waiting: true, Deadline: time.Now(), Before: parsed(t, before), Touched: []string{"eth0"}, Image: &snapshot.Image{}}
	if err := m.dir.putRecord(r); err != nil {
		t.Fatal(err)
	}
	if err := m.Guard(t.Context(), r.ID); !errors.Is(err, ErrGivenUp) || !strings.Contains(err.Error(), "the device is gone") {
		t.Errorf("got %v", err)
	}
	const looks = 2 // for the additions of others, and for missing objects
	if h.steps != looks*rounds {
		t.Errorf("it looked %d times, want %d", h.steps, looks*rounds)
	}
	if left, err := m.dir.record(); err != nil || left != nil {
		t.Errorf("the next process finds %v, %v", left, err)
	}
	if lost, err := m.Unrestored(); err != nil || lost == nil || !lost.GivenUp || !strings.Contains(lost.Message, "the device is gone") {
		t.Errorf("the folder tells %+v, %v", lost, err)
	}
}

func TestTransaction_NoTimeout_Refused(t *testing.T) {
	h := &stuck{state: "interfaces: [{name: eth0, type: ethernet, state: up, mtu: 1500}]"}
	m := stuckManager(t, h)
	for _, limit := range []time.Duration{0, -time.Second} {
		_, err := m.Apply(t.Context(), parsed(t, "interfaces: [{name: eth0, mtu: 1400}]"), Options{Timeout: limit})
		if err == nil || !strings.Contains(err.Error(), "timeout") || h.steps != 0 {
			t.Errorf("%s: %v after %d steps", limit, err, h.steps)
		}
	}
}
