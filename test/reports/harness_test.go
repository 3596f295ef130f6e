// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/soak"
)

// needsLab tells that a test was left out.
const needsLab = "needs a lab: set ALIOTH_E2E=1, or use: make test-scenes"

// suite is all cases, on one lab.
var suite = stage.NewSuite("reports", "../..")

func TestMain(m *testing.M) {
	if os.Getenv("ALIOTH_E2E") != "1" {
		os.Exit(m.Run())
	}
	os.Exit(suite.Main(m))
}

// lab is the environment of every case.
type lab struct {
	*stage.Env
	// common exists for all cases that run beside others. A case that disturbs does not have it.
	*common
}

// start returns the shared lab, or fails the test; see stage.Suite.Start.
func start(t *testing.T) *lab {
	t.Helper()
	if os.Getenv("ALIOTH_E2E") != "1" {
		t.Skip(needsLab)
	}
	return &lab{Env: suite.Start(t)}
}

// TestReports_Undisturbing_RightValue runs all cases that do not disturb others, beside each other.
// The objects that they share are made once.
func TestReports_Undisturbing_RightValue(t *testing.T) {
	soak.Also(t)
	l := start(t)
	l.common = newCommon(t, l.Env)
	for _, r := range sorted() {
		if r.Run == nil || r.Disturbs || r.Outage != nil {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			r.run(t, l)
		})
	}
}

// TestReports_Disturbing_RightValue runs the others one after the other.
func TestReports_Disturbing_RightValue(t *testing.T) {
	soak.Also(t)
	l := start(t)
	for _, r := range sorted() {
		if r.Run == nil || !r.Disturbs {
			continue
		}
		t.Run(r.Name, func(t *testing.T) { r.run(t, l) })
	}
}

// TestReports_Outages_RightValue has each outage happen once, with all of its cases beside each
// other.
func TestReports_Outages_RightValue(t *testing.T) {
	soak.Also(t)
	l := start(t)
	for _, o := range outages {
		o.through(t, l, slices.DeleteFunc(sorted(), func(r Report) bool { return r.Outage != o }))
	}
}

// run names the case in its failures.
func (r Report) run(t *testing.T, l *lab) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\n%s\nright is: %s", r.Source, r.Input, r.Want)
		}
	})
	r.Run(t, l)
}

// patience bounds the waits of a case.
func patience(t *testing.T) context.Context {
	t.Helper()
	return stage.Within(t, stage.Patience)
}

// until waits until something is true, or ends the case.
func until(t *testing.T, what string, look func(context.Context) (done bool, seen string, err error)) {
	t.Helper()
	if err := scene.Until(patience(t), what, look); err != nil {
		t.Fatal(err)
	}
}
