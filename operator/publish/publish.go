// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publish tells admission policies what the operator knows: each has one
// ConfigMap in Alioth's own namespace for its parameter, which the chart makes.
package publish

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Publisher writes ConfigMaps.
type Publisher struct {
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Namespace is Alioth's own, or "" for none: without the chart there are no
	// policies.
	Namespace string
}

// Write makes a ConfigMap that exists hold the data.
func (p Publisher) Write(ctx context.Context, name string, data map[string]string) error {
	if p.Namespace == "" {
		return nil
	}
	object := &corev1.ConfigMap{}
	if err := p.Live.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: name}, object); err != nil {
		return fmt.Errorf("read what admission knows: %w; `helm upgrade` makes a ConfigMap that was deleted anew", err)
	}
	if maps.Equal(data, object.Data) {
		return nil
	}
	object.Data = data
	if err := p.Client.Update(ctx, object); err != nil {
		return fmt.Errorf("tell admission: %w", err)
	}
	return nil
}
