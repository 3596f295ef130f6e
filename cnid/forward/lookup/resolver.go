// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/lookup/cache"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
)

// Getter has the request of a question to the API server. A kube.Client is one.
type Getter interface {
	GetOnce(ctx context.Context, object kube.Object) error
}

// API asks the API server. It reads Addresses by name, so an answer costs it one read.
type API struct {
	getter Getter
}

// NewAPI returns a Resolver that asks the API server.
func NewAPI(getter Getter) API { return API{getter} }

// Resolve implements Resolver.
func (a API) Resolve(ctx context.Context, q cache.Question) cache.Answer {
	object := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(q.VPC, q.IP)}}
	if err := a.getter.GetOnce(ctx, object); err != nil {
		return cache.Answer{Question: q, Result: resultOf(ctx, err)}
	}
	row, err := vpcs.Address.Read(object)
	if err != nil || row == nil {
		return cache.Answer{Question: q, Result: cache.Failed} // no node can program such an object
	}
	return cache.Answer{Question: q, Result: cache.Found, Address: row}
}

// resultOf is the result of a request that has failed.
func resultOf(ctx context.Context, err error) cache.Result {
	switch {
	case apierrors.IsNotFound(err):
		return cache.NotFound
	case apierrors.IsTooManyRequests(err):
		return cache.Refused
	case ctx.Err() != nil,
		errors.Is(err, context.DeadlineExceeded),
		apierrors.IsTimeout(err),
		apierrors.IsServerTimeout(err):
		return cache.Slow
	}
	return cache.Failed
}
