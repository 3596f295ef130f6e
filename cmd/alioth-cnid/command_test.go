// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/alioth-net/alioth/cnid"
)

func TestDaemonCommand_Prepared_MetricsGuarded(t *testing.T) {
	o := &options{Config: cnid.DefaultConfig(), logLevel: "info", logFormat: "text"}
	cfg, _, err := o.prepare()
	if err != nil || cfg.Guard == nil {
		t.Errorf("the daemon gets the guard %v, %v", cfg.Guard, err)
	}
}
