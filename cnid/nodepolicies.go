// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/store/kube"
	"github.com/alioth-net/alioth/store/nmstate/policyhandler"
)

// networkPoliciesModule puts the policies about the node's network together.
func (d *daemon) networkPoliciesModule(api *kube.Client, synced func() (bool, <-chan struct{})) module {
	policies := policyhandler.NewHandler(policyhandler.Config{
		API: api, Store: d.store, Now: time.Now, Log: d.log,
		// Its row does not have the labels.
		Node: func(ctx context.Context, name string) (*corev1.Node, error) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
			defer cancel()
			return node, api.Get(ctx, node)
		},
	})
	return module{
		name:  "node network policies",
		loops: []func(context.Context){func(ctx context.Context) { policies.Run(ctx, d.cfg.NodeName, synced) }},
	}
}
