// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/refusal"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// Grant makes a HostAccess for the time of a test, and returns once pods of the
// namespace that ask for what it grants are let in.
func (e *Env) Grant(t *testing.T, access *v1alpha1.HostAccess, namespace string, asking ...scene.PodOption) {
	t.Helper()
	e.Make(t, access)
	err := scene.Until(Within(t, Patience), "HostAccess "+access.Name+" to be in force", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Create(ctx, scene.Pod(namespace, "granted", asking...), client.DryRunAll)
		if refusal.MayPass(err) {
			return false, err.Error(), nil
		}
		return err == nil, "", err
	})
	if err != nil {
		t.Fatal(err)
	}
}
