// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func TestConfigCheck_InvalidValues_RefusedWithFlagName(t *testing.T) {
	cases := map[string]func(*Config){
		"node name":      func(c *Config) { c.NodeName = "" },
		"a shorter one":  func(c *Config) { c.NodeName = strings.Repeat("n", v1alpha1.MaxNodeName+1) },
		"--shadow-cidrs": func(c *Config) { c.Shadows = nil },
		"--tunnel-port":  func(c *Config) { c.TunnelPort = 0 },
		"--pod-device":   func(c *Config) { c.PodDevice = "ipvlan" },

		"--metrics-addr":             func(c *Config) { c.MetricsAddr = c.HealthAddr },
		"--node-ipam-listen":         func(c *Config) { c.NodeIPAM.Listen = "0.0.0.0:10090" },
		"--node-network-policy-mode": func(c *Config) { c.NetworkPolicyMode = "operator" },
	}
	for want, change := range cases {
		t.Run(want, func(t *testing.T) {
			c := DefaultConfig()
			c.NodeName = "node1"
			if err := c.check(); err != nil {
				t.Fatalf("the defaults: %v", err)
			}
			change(&c)
			if err := c.check(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestConfigCheck_NoReviewInterval_Refused(t *testing.T) {
	cfg := DefaultConfig()
	cfg.NodeName, cfg.ReviewEvery = "node1", 0
	if err := cfg.check(); err == nil || !strings.Contains(err.Error(), "reviews of the node's objects") {
		t.Errorf("got %v, want a refusal: the loops of reviews would run without a pause", err)
	}
}
