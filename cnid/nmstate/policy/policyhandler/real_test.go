// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/test/api/apiserver"
)

var server apiserver.Shared

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

func TestPolicyHandler_RealAPI_WritesAccepted(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api, err := kube.New(server.Config(t), scheme)
	if err != nil {
		t.Fatal(err)
	}
	life{T: t, api: api}.run()
}
