// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction_test

import (
	"context"
	"errors"
	"regexp"
	"testing"

	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// forgetful is a Host that says it has changed an MTU, and has not.
type forgetful struct{ transaction.Host }

func (f forgetful) Do(ctx context.Context, step plan.Step) error {
	if change, ok := step.(plan.Change); ok && change.Interface.MTU != nil {
		return nil
	}
	return f.Host.Do(ctx, step)
}

func TestVerification_Failure_ExpectedFoundAndTimeReported(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	const desired = "interfaces: [{name: eth0, mtu: 1400}]"
	_, err := w.with(t, desired, transaction.Options{}, func(cfg *transaction.Config) { cfg.Host = forgetful{cfg.Host} })
	reported := regexp.MustCompile(`the host does not have the desired state: eth0\.mtu: expected 1400, found 1500; it is so since 20\S+T\S+`)
	if !errors.Is(err, transaction.ErrRolledBack) || !reported.MatchString(err.Error()) {
		t.Errorf("got %v", err)
	}
	w.same(t, before)
}
