// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/operator/danm"
)

func TestConfigCheck_RollCallsWithoutPause_Refused(t *testing.T) {
	for _, every := range []time.Duration{-time.Second, 0, time.Second - 1} {
		cfg := DefaultConfig()
		cfg.RollCallEvery = every
		if err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--roll-call-every") {
			t.Errorf("%s: got %v", every, err)
		}
	}
}

func TestConfigCheck_LeaseTooShort_Refused(t *testing.T) {
	for _, duration := range []time.Duration{-time.Second, 0, 3*time.Second - 1, 5500 * time.Millisecond} {
		cfg := DefaultConfig()
		cfg.LeaseDuration = duration
		if err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--lease-duration") {
			t.Errorf("%s: got %v", duration, err)
		}
	}
}

func TestConfigCheck_UnknownPolicyMode_Refused(t *testing.T) {
	cfg := DefaultConfig()
	cfg.PolicyMode = "central"
	if err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--node-network-policy-mode") {
		t.Errorf("got %v", err)
	}
}

func TestConfigCheck_HalfOfNodeIPAM_Refused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no subnet", func(c *Config) { c.NodeIPAMInfraSubnet = "" }, "--node-ipam-infra-subnet"},
		{"a subnet that can't be", func(c *Config) { c.NodeIPAMInfraSubnet = "Infra" }, "--node-ipam-infra-subnet"},
		{"no group", func(c *Config) { c.NodeIPAMGroups = nil }, "--node-ipam-groups"},
		{"a group of others", func(c *Config) { c.NodeIPAMGroups = append(c.NodeIPAMGroups, "azure.com") }, `API group "azure.com"`},
	} {
		cfg := DefaultConfig()
		cfg.NodeIPAM, cfg.NodeIPAMInfraSubnet = true, "infra"
		if err := cfg.validate(); err != nil {
			t.Fatal(err)
		}
		tt.change(&cfg)
		if err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

func TestConfigCheck_InvalidLimits_Refused(t *testing.T) {
	for flag, limits := range map[string]danm.Limits{
		"--tenant-networks": {Networks: -1}, "--tenant-numbers": {Numbers: -1}, "--tenant-prefix4": {Prefix4: 31}, "--tenant-prefix6": {Prefix6: 127},
	} {
		cfg := DefaultConfig()
		cfg.TenantLimits = limits
		if err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%+v: got %v", limits, err)
		}
	}
	cfg := DefaultConfig()
	cfg.GlobalNamespaces = []string{"shared", "../etc"}
	if err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), `"../etc" is no name of a namespace: correct --global-namespaces`) {
		t.Errorf("a namespace with a path: got %v", err)
	}
	cfg = DefaultConfig()
	cfg.TenantServices = -1
	if err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--tenant-services") {
		t.Errorf("fewer than no Services: got %v", err)
	}
}
