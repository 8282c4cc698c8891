"""Semiparametric contextual bandits on fixed arms: they seek reward, and name the best estimate."""
