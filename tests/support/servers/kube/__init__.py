"""A real Kubernetes API server: etcd and kube-apiserver, without controllers, scheduler or kubelets.

``build`` finds or builds the programs, ``server`` runs them, ``client`` speaks to them, ``crds`` are the
kinds of job operators. What a controller or a kubelet would do in a cluster, the test does.
"""
