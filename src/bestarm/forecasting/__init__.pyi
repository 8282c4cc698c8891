from bestarm.forecasting.encoding import Encoder as Encoder
from bestarm.forecasting.forecaster import Forecaster as Forecaster
from bestarm.forecasting.regression import Regression as Regression
