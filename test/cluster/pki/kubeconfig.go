// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig returns a kubeconfig file that holds all it refers to: the server
// (a URL), the authority to trust, and a client's certificate and key.
func Kubeconfig(server, user string, authority []byte, client Pair) ([]byte, error) {
	const name = "alioth-lab"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: client.Cert, ClientKeyData: client.Key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	raw, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode the kubeconfig of %s: %w", user, err)
	}
	return raw, nil
}
