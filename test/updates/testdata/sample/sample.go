// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package main has one example of each way to write a whole object. Each line that ends with
// "found" is one that the analysis finds.
package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/store/client/kube"
)

type counted struct {
	client.Client
	writes int
}

// Update hands its object on: its callers are looked at.
func (c *counted) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	c.writes++
	return c.Client.Update(ctx, object, options...)
}

func save(ctx context.Context, c client.Client, object client.Object) error {
	return c.Update(ctx, object) // found
}

type figures struct{}

func (figures) Update(context.Context, int) {}

func main() {
	ctx, c, pod := context.Background(), &counted{}, &corev1.Pod{}
	_ = c.Update(ctx, pod)          // found
	_ = c.Status().Update(ctx, pod) // found
	_ = c.Status().Patch(ctx, pod, client.MergeFrom(pod))
	_ = save(ctx, c, pod)
	var typed corev1client.PodInterface
	_, _ = typed.Update(ctx, pod, metav1.UpdateOptions{})       // found
	_, _ = typed.UpdateStatus(ctx, pod, metav1.UpdateOptions{}) // found
	var api *kube.Client
	write := api.Update // found
	_ = write(ctx, pod)
	figures{}.Update(ctx, 1)
}
