// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/alioth-net/alioth/operator"
)

func TestOperatorCommand_Prepared_MetricsGuardedAndGarbageLimited(t *testing.T) {
	o := &options{Config: operator.DefaultConfig(), logLevel: "info", logFormat: "text"}
	cfg, _, err := o.prepare()
	if err != nil || cfg.Guard == nil || cfg.Garbage == nil {
		t.Errorf("the operator gets the guard %v and the limit %v, %v", cfg.Guard, cfg.Garbage, err)
	}
}
