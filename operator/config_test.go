// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestAnOperatorDoesNotStartWithRollCallsWithoutAPause(t *testing.T) {
	for _, every := range []time.Duration{-time.Second, 0, time.Second - 1} {
		cfg := DefaultConfig()
		cfg.RollCallEvery = every
		if err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--roll-call-every") {
			t.Errorf("%s: got %v", every, err)
		}
	}
}

func TestAnOperatorDoesNotStartInAnUnknownModeOfPolicies(t *testing.T) {
	cfg := DefaultConfig()
	cfg.PolicyMode = "central"
	if err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--node-network-policy-mode") {
		t.Errorf("got %v", err)
	}
}
